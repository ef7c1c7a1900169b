"""Read a release and draw its posterior, for all commands that need one."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import network_over, prior_of, queries_in, queries_of
from discreet.display.terminal import say
from discreet.errors import InputError, require, shown
from discreet.releases.combined import Evidence
from discreet.util.json_files import DRAWS_FIRST_LINE, decode_text, read_at_most
from discreet.util.limits import DOCUMENT_BYTES, QUERIES_BYTES

SNIFFED_BYTES = 4096
"""Bytes of a file that show its kind."""
GAPS = {
    "at-random": "assumed missing at random (--missing state treats missing as a category)",
    "state": "a category of its own (--missing at-random assumes that they are missing at random)",
}
"""Treatment of missing values, in words."""


@dataclass(frozen=True)
class Drawing:
    """Options of drawing a posterior; None or False for those not given."""

    method: str | None = None
    draws: int | None = None
    seed: int | None = None
    prior: dc.Dirichlet | None = None
    trust_network: bool = False
    latent: str | None = None

    @property
    def number(self) -> int:
        """Number of draws."""
        return flags.DEFAULT_DRAWS if self.draws is None else self.draws

    def with_stored(self, stored: dc.results.PosteriorDraws | None) -> int:
        """Return the number of draws: those of a file, if there is one."""
        return self.number if stored is None else stored.probabilities.draws or self.number

    def rng(self, *stream: int) -> np.random.Generator:
        """Make random numbers for the posterior, or for a separate stream."""
        seed = self.seed or 0
        if seed < 0:
            raise InputError(f"a seed cannot be negative, got {seed}")
        return np.random.default_rng((seed, *stream) if stream else seed)


def posterior_of(
    evidence: Evidence, how: Drawing, missing: str | None = None, stored: dc.results.PosteriorDraws | None = None
) -> dc.results.PosteriorDraws:
    """Draw the posterior of a command, or take stored draws; missing values are a state by default.

    Options of drawing are refused for stored draws.
    """
    if missing is not None and missing not in GAPS:
        raise InputError(f"--missing is {' or '.join(GAPS)}, not {shown(missing)}")
    if missing is not None and not evidence.answers_over.may_be_missing:
        raise InputError("this release has no state for missing values; leave out --missing")
    if not evidence.private:
        say("this release is a simulation: it protects nobody")
    if stored is not None and how != Drawing():
        raise InputError(
            "these draws are stored: leave out --method, --draws, --seed, --prior, --trust-network and --latent, or "
            "use their release"
        )
    posterior = _draw(evidence, how) if stored is None else stored
    return dc.tools.assume_at_random(posterior) if missing == "at-random" else posterior


def _draw(evidence: Evidence, how: Drawing) -> dc.results.PosteriorDraws:
    """Draw the posterior of a release."""
    method, draws, rng = how.method or "noise-aware", how.number, how.rng()
    if how.latent is not None:
        alone = how.prior is None and how.method is None and not how.trust_network
        require(alone, "--latent has its own prior and method: leave out --prior, --method and --trust-network")
        network = network_over(how.latent, None)
        return cast(
            dc.results.PosteriorDraws, dc.read(evidence, method="latent", network=network, draws=draws, rng=rng)
        )
    if method not in flags.METHODS:
        raise InputError(f"no method {shown(method)}; the methods are: {', '.join(flags.METHODS)}")
    if method == "plug-in":
        if len(evidence.parts) > 1 or getattr(evidence, "public", None) is not None:
            raise InputError("plug-in reads one release, not several")
        return dc.tools.plug_in(evidence.parts[0], draws=draws, rng=rng, prior=how.prior)
    chosen = cast(dc.tools.Method, "auto" if method == "noise-aware" else method)
    return dc.noise_aware(
        evidence, draws=draws, rng=rng, prior=how.prior, method=chosen, trust_network=how.trust_network
    )


def read_prior(evidence: Evidence, text: str | None, size: float, how: Drawing) -> dc.Dirichlet | None:
    """Read the analyst's prior: a number, a network, or the posterior of a release of other records."""
    if text is None:
        return None
    if _is_document(text):
        source, stored = load_source(text)
        if not source.private:
            say("the release that the prior comes from is a simulation: it protects nobody")
        return (dc.noise_aware(source, draws=Drawing().number, rng=how.rng()) if stored is None else stored).as_prior()
    return prior_of(evidence.network, text, size)


def say_unmeasured(posterior: dc.results.PosteriorDraws) -> None:
    """Print the tables that rest on the prior alone, on stderr."""
    from discreet.posterior.basis import prior_only_words

    parts = () if posterior.basis is None else posterior.basis.prior_only(posterior.network.nodes)
    if parts:
        say(prior_only_words(parts))


def _is_document(path: str) -> bool:
    """Return True if a file begins as a release or stored draws do; a network never does."""
    return _begins_with(path, b"{") or _begins_with(path, DRAWS_FIRST_LINE)


def read_queries(words: list[str] | None, release: str) -> list[str] | None:
    """Read the queries of arguments, files and stdin, in their order; None without arguments."""
    if not words:
        return None
    if words.count("-") + (release == "-") > 1:
        raise InputError("only one of the release and the queries can come from stdin, and once; give a file")
    listed = [
        text
        for word in words
        for text in (queries_in(_read_stdin("queries", QUERIES_BYTES)) if word == "-" else queries_of(word))
    ]
    if not listed:
        raise InputError("the files have no query; write one a line")
    return listed


def load_evidence(path: str) -> Evidence:
    """Load a release, combined releases or stored draws from a file or stdin, without the draws."""
    return load_source(path)[0]


def load_source(path: str) -> tuple[Evidence, dc.results.PosteriorDraws | None]:
    """Load a release, combined releases or stored draws from a file or stdin, with the draws if they are stored."""
    if path == "-":
        return dc.tools.loads(_read_stdin("release", DOCUMENT_BYTES)), None
    if not _begins_with(path, DRAWS_FIRST_LINE):
        return dc.load(path), None
    stored = dc.results.PosteriorDraws.load(path)
    assert stored.basis is not None
    return stored.basis.evidence.alone, stored


def _begins_with(path: str, start: bytes) -> bool:
    """Return True if a readable file begins with some bytes, after whitespace."""
    with suppress(OSError, ValueError), open(path, "rb") as file:
        return file.read(SNIFFED_BYTES).lstrip().startswith(start)
    return False


def _read_stdin(label: str, limit: int) -> str:
    """Read all text of stdin, up to a number of bytes."""
    return decode_text(read_at_most(sys.stdin.buffer, f"the {label} from stdin", limit), f"the {label} from stdin")
