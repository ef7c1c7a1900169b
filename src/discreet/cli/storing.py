"""`discreet draw`: the draws of a posterior as a file, which commands take in the place of a release."""

from __future__ import annotations

from dataclasses import replace as with_
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.arguments import (
    Draws,
    EquivalentSampleSize,
    Json,
    Method,
    Prior,
    ReleaseFile,
    Replace,
    Seed,
    TrustNetwork,
)
from discreet.cli.posteriors import Drawing, believed_prior, load_evidence, posterior_of
from discreet.display.terminal import check_output, show
from discreet.errors import InputError
from discreet.posterior.read import what_it_gives


def draw(
    release: ReleaseFile,
    output: Annotated[Path, typer.Option(help="File of the draws; by convention it ends in .draws.")],
    method: Method = None,
    prior: Prior = None,
    equivalent_sample_size: EquivalentSampleSize = 1.0,
    draws: Draws = None,
    trust_network: TrustNetwork = False,
    seed: Seed = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Draw a posterior once and store it: query, sample, decide and export then take the file in place of the release.

    Their answers are the same to the last digit as those of the release with the same options, without the time.
    """
    check_output(output, replace)
    evidence = load_evidence(release)
    if what_it_gives(evidence) in ("weights", "states"):
        raise InputError("a release of a regression or a direction is read in no time; there is nothing to store")
    how = Drawing(method, draws, seed, trust_network=trust_network)
    how = with_(how, prior=believed_prior(evidence, prior, equivalent_sample_size, how))
    posterior = posterior_of(evidence, how)
    posterior.save(output, replace=replace)
    told = {"output": str(output), "method": posterior.method, "draws": how.number}
    show(as_json, told, f"wrote {output}: {how.number:,} draws, posterior: {posterior.method}")
