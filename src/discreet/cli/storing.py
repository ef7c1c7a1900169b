"""`discreet draw`: store the draws of a posterior in a file, which commands take instead of a release."""

from __future__ import annotations

from dataclasses import replace as with_
from pathlib import Path
from typing import Annotated

from discreet.cli import flags
from discreet.cli.posteriors import Drawing, load_evidence, posterior_of, read_prior
from discreet.display.terminal import check_output, show
from discreet.errors import InputError
from discreet.posterior.read import posterior_kind


def draw(
    release: flags.ReleaseFile,
    output: Annotated[Path, flags.output(metavar="FILE", help="File of draws, by convention *.draws.")],
    method: flags.Method = None,
    prior: flags.Prior = None,
    equivalent_sample_size: flags.EquivalentSampleSize = 1.0,
    draws: flags.Draws = None,
    trust_network: flags.TrustNetwork = False,
    latent: flags.Latent = None,
    seed: flags.Seed = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Draw a posterior once, and store it for other commands.

    query, sample, decide, export and report take the file instead of the release. They answer the same to the last
    digit, in less time.

    Example:
        discreet draw release.json --output release.draws
        discreet query release.draws "P(lung | smoke=yes)"
    """
    check_output(output, replace)
    evidence = load_evidence(release)
    if posterior_kind(evidence) in ("weights", "states"):
        raise InputError("a release of a regression or a direction is read quickly; there is nothing to store")
    how = Drawing(method, draws, seed, trust_network=trust_network, latent=latent)
    how = with_(how, prior=read_prior(evidence, prior, equivalent_sample_size, how))
    posterior = posterior_of(evidence, how)
    posterior.save(output, replace=replace)
    document = {"output": str(output), "method": posterior.method, "draws": how.number}
    show(as_json, document, f"wrote {output}: {how.number:,} draws, posterior: {posterior.method}")
