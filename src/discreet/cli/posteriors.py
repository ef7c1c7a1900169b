"""From a release to its posterior, as commands that read one ask for it."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import prior_of, queries_in, queries_of
from discreet.display.terminal import say
from discreet.errors import InputError, shown
from discreet.posterior.joint_draws import DRAWS_FIRST_LINE
from discreet.releases.combined import Evidence
from discreet.util.json_files import decode_text, read_at_most
from discreet.util.limits import DOCUMENT_BYTES, QUERIES_BYTES

SNIFFED_BYTES = 4096
"""Bytes of a file that tell what it holds."""
GAPS = {
    "at-random": "at random, given what was seen in the families of the record (--missing state: as counted)",
    "state": "a state like others (--missing at-random: of complete records, which is an assumption)",
}
"""What is made of missing values that were kept."""


@dataclass(frozen=True)
class Drawing:
    """How a command was asked to draw a posterior: None, or False, where nothing was said."""

    method: str | None = None
    draws: int | None = None
    seed: int | None = None
    prior: dc.Dirichlet | None = None
    trust_network: bool = False

    @property
    def number(self) -> int:
        """Draws."""
        return flags.DEFAULT_DRAWS if self.draws is None else self.draws

    def with_stored(self, stored: dc.results.PosteriorDraws | None) -> int:
        """Draws that there will be: those of a file, if one holds them."""
        return self.number if stored is None else stored.cells.draws or self.number

    def rng(self, *stream: int) -> np.random.Generator:
        """Random numbers of the posterior, or of a stream beside them."""
        seed = self.seed or 0
        if seed < 0:
            raise InputError(f"a seed cannot be negative, got {seed}")
        return np.random.default_rng((seed, *stream) if stream else seed)


def posterior_of(
    evidence: Evidence, how: Drawing, missing: str | None = None, stored: dc.results.PosteriorDraws | None = None
) -> dc.results.PosteriorDraws:
    """The posterior that a command asks; gaps are a state, as they were counted, where nothing else is said.

    Draws that are stored are taken as they are: options that would make others are refused.
    """
    if missing is not None and missing not in GAPS:
        raise InputError(f"--missing is {' or '.join(GAPS)}, not {shown(missing)}")
    if missing is not None and not evidence.answers_over.may_be_missing:
        raise InputError(
            "--missing is for releases of variables with a state of missing values, which this one has not"
        )
    if not evidence.private:
        say("this release is a simulation: it protects nobody")
    if stored is not None and how != Drawing():
        raise InputError(
            "these draws are stored: leave out --method, --draws, --seed, --prior and --trust-network, or ask the "
            "release that they were made of"
        )
    drawn = _draw(evidence, how) if stored is None else stored
    return dc.tools.assume_at_random(drawn) if missing == "at-random" else drawn


def _draw(evidence: Evidence, how: Drawing) -> dc.results.PosteriorDraws:
    """Draw the posterior of what was released."""
    method, draws, rng = how.method or "noise-aware", how.number, how.rng()
    if method not in flags.METHODS:
        raise InputError(f"no method {shown(method)}; there are: {', '.join(flags.METHODS)}")
    if method == "plug-in":
        if len(evidence.parts) > 1 or getattr(evidence, "public", None) is not None:
            raise InputError("plug-in reads one release, not several")
        return dc.tools.plug_in(evidence.parts[0], draws=draws, rng=rng, prior=how.prior)
    asked = cast(dc.tools.Method, "auto" if method == "noise-aware" else method)
    return dc.noise_aware(
        evidence, draws=draws, rng=rng, prior=how.prior, method=asked, trust_network=how.trust_network
    )


def believed_prior(evidence: Evidence, text: str | None, size: float, how: Drawing) -> dc.Dirichlet | None:
    """The prior that was asked for: a number, a network, or the posterior of a release on other records."""
    if text is None:
        return None
    if _is_document(text):
        other, stored = load_asked(text)
        if not other.private:
            say("the release that the prior comes from is a simulation: it protects nobody")
        return (dc.noise_aware(other, draws=Drawing().number, rng=how.rng()) if stored is None else stored).as_prior()
    return prior_of(evidence.network, text, size)


def say_unmeasured(posterior: dc.results.PosteriorDraws) -> None:
    """Say what a whole network's probabilities have of the prior alone, on stderr."""
    from discreet.posterior.basis import prior_only_words

    parts = () if posterior.basis is None else posterior.basis.prior_only(posterior.network.nodes)
    if parts:
        say(prior_only_words(parts))


def _is_document(path: str) -> bool:
    """Whether a file begins as a release or stored draws do; a network never does."""
    return _begins_with(path, b"{") or _begins_with(path, DRAWS_FIRST_LINE)


def asked_queries(words: list[str] | None, release: str) -> list[str] | None:
    """The queries of arguments, files and stdin, in their order; None where there is no argument."""
    if not words:
        return None
    if words.count("-") + (release == "-") > 1:
        raise InputError("only one of the release and the queries can come from stdin, and once; name a file")
    listed = [
        text
        for word in words
        for text in (queries_in(_read_stdin("queries", QUERIES_BYTES)) if word == "-" else queries_of(word))
    ]
    if not listed:
        raise InputError("there is no query in the files that were named; write one a line")
    return listed


def load_evidence(path: str) -> Evidence:
    """A release, or combined releases, from a file, which may be one of draws, or from stdin."""
    return load_asked(path)[0]


def load_asked(path: str) -> tuple[Evidence, dc.results.PosteriorDraws | None]:
    """What a file or stdin holds: a release or combined releases, and draws of their posterior if they are stored."""
    if path == "-":
        return dc.tools.loads(_read_stdin("release", DOCUMENT_BYTES)), None
    if not _begins_with(path, DRAWS_FIRST_LINE):
        return dc.load(path), None
    stored = dc.results.PosteriorDraws.load(path)
    assert stored.basis is not None
    return stored.basis.evidence.alone, stored


def _begins_with(path: str, start: bytes) -> bool:
    """Whether a file can be read and begins with some bytes, after blank ones."""
    with suppress(OSError, ValueError), open(path, "rb") as file:
        return file.read(SNIFFED_BYTES).lstrip().startswith(start)
    return False


def _read_stdin(what: str, limit: int) -> str:
    """Read all text on stdin, no more bytes than a limit."""
    return decode_text(read_at_most(sys.stdin.buffer, f"the {what} from stdin", limit), f"the {what} from stdin")
