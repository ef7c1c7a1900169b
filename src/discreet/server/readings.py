"""Posteriors of what is served: read from stored draws, or drawn, when they are first asked for.

As many are held as the memory allows; the one that was not asked for longest goes first. What is drawn here is what
`discreet query` draws without options: 1,000 draws, seed 0, so that two servers agree.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from discreet.errors import DiscreetError
from discreet.posterior.at_random import assume_at_random
from discreet.posterior.fit_check import GoodnessOfFit, check_fit
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.read import read as read_evidence
from discreet.posterior.stored import evidence_in, load_draws
from discreet.server.desk import return_memory
from discreet.server.problems import Problem
from discreet.server.server_limits import ServerLimits
from discreet.server.shelf import Version, content_digest, without_folders
from discreet.util.option_texts import Gaps

State = Literal["ready", "under way", "stored", "to be drawn"]
"""Whether a version can be asked at once, or how it will be read when it is asked."""
DRAWS, SEED = 1000, 0
WEIGHTS_ONLY = "it has coefficients, all of which /query answers without q"
SINGLE_BYTES = 4
"""Of a number in single precision, which joint laws are kept in."""


@dataclass(frozen=True, eq=False)
class ServedPosterior:
    """A version with its posterior.

    Args:
        version: that was read.
        draws: of its network, with gaps as a state where values may be missing; None where it has none.
    """

    version: Version
    draws: PosteriorDraws | None

    @cached_property
    def complete(self) -> PosteriorDraws:
        """The posterior of complete records: with gaps at random, where values may be missing."""
        return assume_at_random(self._drawn) if self.version.gaps else self._drawn

    def posterior(self, missing: Gaps | None = None) -> PosteriorDraws:
        """The posterior that a question is about.

        Raises:
            Problem: there is none, or `missing` was said where nothing may be missing.
        """
        drawn = self._drawn
        if missing is not None and not self.version.gaps:
            raise Problem(
                "bad-request", "missing is for releases of variables with a state of missing values, which this has not"
            )
        return self.complete if missing == "at-random" else drawn

    @property
    def _drawn(self) -> PosteriorDraws:
        """The draws; refused where there are none."""
        if self.draws is None:
            why = WEIGHTS_ONLY if self.version.kind == "weights" else "only a network was chosen"
            raise Problem("bad-request", f"this release has no posterior of a network to ask: {why}")
        return self.draws

    @cached_property
    def plain(self) -> PosteriorDraws:
        """The posterior without twin draws: intervals are the same, the part of the noise is not known."""
        draws = self._drawn
        wide = draws.saturated
        return replace(draws, twins=None, saturated=None if wide is None else replace(wide, twins=None))

    @cached_property
    def checked(self) -> GoodnessOfFit:
        """What the release says of its network."""
        basis = None if self.draws is None else self.draws.basis
        return check_fit(self.version.evidence) if basis is None else basis.fit_check

    @cached_property
    def numbers(self) -> Any:
        """The posterior of numbers with names: coefficients, a direction, components, or a family's parameters."""
        method = "parameters" if self.version.kind == "family" else "auto"
        return read_evidence(self.version.evidence, method=method, draws=DRAWS, rng=SEED)

    @property
    def bytes(self) -> int:
        """Memory of the draws, of their joint laws, and of the twins of both."""
        if self.draws is None:
            return 0
        draws, wide = self.draws.cells.draws or 1, self.draws.saturated or self.draws
        law = 0 if wide.parts is None else SINGLE_BYTES * wide.parts.plan.wide.size
        each = 8 * self.draws.network.size + law
        return draws * each * (1 if self.draws.twins is None else 2)


class Readings:
    """Readings of versions: stored draws are read in one thread, others drawn in another, which takes longer.

    Args:
        limits: of the server.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._reading, self._drawing = ThreadPoolExecutor(1, "stored"), ThreadPoolExecutor(1, "drawn")
        self._held: OrderedDict[str, ServedPosterior] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[ServedPosterior]] = {}

    @property
    def bytes(self) -> int:
        """Memory of all draws that are held."""
        return sum(reading.bytes for reading in self._held.values())

    def state(self, version: Version) -> State:
        """Whether a version can be asked at once: "ready", "under way", or how it will be read when it is asked."""
        if version.digest in self._held:
            return "ready"
        if version.digest in self._under_way:
            return "under way"
        return "stored" if version.draws is not None else "to be drawn"

    def close(self) -> None:
        """Begin nothing more."""
        for pool in (self._reading, self._drawing):
            pool.shutdown(wait=False, cancel_futures=True)

    async def get(self, version: Version) -> ServedPosterior:
        """The reading of a version.

        Raises:
            Problem: it takes longer than a request may wait, or its file cannot be read.
        """
        found = self._held.get(version.digest)
        if found is not None:
            self._held.move_to_end(version.digest)
            return found
        task = self._under_way.get(version.digest)
        if task is None:
            task = asyncio.ensure_future(self._read(version))
            self._under_way[version.digest] = task
            task.add_done_callback(lambda done: self._end(version, done))
        try:
            return await asyncio.wait_for(asyncio.shield(task), self._limits.seconds)
        except TimeoutError:
            raise Problem(
                "not-ready",
                "the posterior of this release is still being drawn; ask again later (`discreet draw` stores draws, "
                "which are read at once)",
                retry_after=10,
            ) from None

    async def _read(self, version: Version) -> ServedPosterior:
        """Read or draw, then make room."""
        try:
            loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
            reader: Callable[[], ServedPosterior] = lambda: read(version)  # noqa: E731
            found = await loop.run_in_executor(self._drawing if version.draws is None else self._reading, reader)
        except DiscreetError as error:
            if version.draws is None:
                raise Problem("bad-request", f"nothing answers for this release: {error}") from None
            raise Problem("unreadable", without_folders(str(error), [version.path, version.draws])) from None
        self._held[version.digest] = found
        while self.bytes > self._limits.draws_bytes and len(self._held) > 1:
            self._held.popitem(last=False)
        return found

    def _end(self, version: Version, done: asyncio.Task[ServedPosterior]) -> None:
        """Forget what is not under way any more; who waited for it has its error."""
        self._under_way.pop(version.digest, None)
        if not done.cancelled():
            done.exception()


def _read_stored(version: Version) -> ServedPosterior | None:
    """What is stored of a version; None where nothing is, or draws of what came after it."""
    if version.draws is None:
        return None
    drawn = load_draws(version.draws)
    if not version.digest.startswith(content_digest(evidence_in(version.draws))):
        return None
    found = ServedPosterior(version, drawn)
    return_memory()
    return found


def read(version: Version) -> ServedPosterior:
    """Read what is stored, or draw the posterior; also that of an older version whose draws were replaced."""
    if version.kind in ("structure", "weights"):
        return ServedPosterior(version, None)
    found = _read_stored(version) or ServedPosterior(version, read_evidence(version.evidence, draws=DRAWS, rng=SEED))
    if version.gaps:
        _ = found.complete  # here, and not while others wait
    return found
