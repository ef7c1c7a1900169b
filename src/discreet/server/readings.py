"""Keep the posteriors of served releases: read from stored draws, or drawn, when they are first needed.

They stay in memory up to a limit; the least recently used one is dropped first. Draws are those of `discreet query`
without options: 1,000 draws, seed 0, so two servers agree.
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
from discreet.posterior.fit_check import GoodnessOfFit, check_fit
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.missing_at_random import assume_at_random
from discreet.posterior.read import read as read_evidence
from discreet.posterior.stored import evidence_in, load_draws
from discreet.server.catalog import Version, content_digest, without_folders
from discreet.server.problems import Problem
from discreet.server.server_limits import ServerLimits
from discreet.server.work_queue import return_memory
from discreet.util.option_texts import Gaps

State = Literal["ready", "under way", "stored", "to be drawn"]
"""State of a version's posterior: in memory, under way, in a file, or not drawn yet."""
DRAWS, SEED = 1000, 0
WEIGHTS_ONLY = "it has coefficients, all of which /query returns without q"
SINGLE_BYTES = 4
"""Bytes of a number in single precision, in which joint distributions are stored."""


@dataclass(frozen=True, eq=False)
class ServedPosterior:
    """A version with its posterior.

    Args:
        version: that was read.
        draws: of its network, with missing as a state if values may be missing; None without a posterior.
    """

    version: Version
    draws: PosteriorDraws | None

    @cached_property
    def complete(self) -> PosteriorDraws:
        """Posterior of complete records: missing values are assumed at random."""
        return assume_at_random(self._network_draws) if self.version.gaps else self._network_draws

    def posterior(self, missing: Gaps | None = None) -> PosteriorDraws:
        """Return the posterior that a question is about.

        Raises:
            Problem: there is none, or `missing` was given although no value may be missing.
        """
        draws = self._network_draws
        if missing is not None and not self.version.gaps:
            raise Problem("bad-request", "this release has no state for missing values; leave missing out")
        return self.complete if missing == "at-random" else draws

    @property
    def _network_draws(self) -> PosteriorDraws:
        """Draws over the network; raises Problem if there are none."""
        if self.draws is None:
            why = WEIGHTS_ONLY if self.version.kind == "weights" else "it chose a network and measured nothing else"
            raise Problem("bad-request", f"this release has no posterior over a network: {why}")
        return self.draws

    @cached_property
    def plain(self) -> PosteriorDraws:
        """Posterior without replicate draws: the same intervals, without the noise share."""
        draws = self._network_draws
        wide = draws.saturated
        return replace(draws, replicates=None, saturated=None if wide is None else replace(wide, replicates=None))

    @cached_property
    def checked(self) -> GoodnessOfFit:
        """Result of the check of the release's network."""
        basis = None if self.draws is None else self.draws.basis
        return check_fit(self.version.evidence) if basis is None else basis.fit_check

    @cached_property
    def numbers(self) -> Any:
        """Posterior of named numbers: coefficients, a direction, components, or a family's parameters."""
        method = "parameters" if self.version.kind == "family" else "auto"
        return read_evidence(self.version.evidence, method=method, draws=DRAWS, rng=SEED)

    @property
    def bytes(self) -> int:
        """Memory of the draws, their joint distributions, and the replicate draws of both, in bytes."""
        if self.draws is None:
            return 0
        draws, wide = self.draws.probabilities.draws or 1, self.draws.saturated or self.draws
        law = 0 if wide.parts is None else SINGLE_BYTES * wide.parts.plan.wide.size
        each = 8 * self.draws.network.size + law
        return draws * each * (1 if self.draws.replicates is None else 2)


class Readings:
    """Posteriors of versions: one thread reads stored draws, another draws new ones, which takes longer.

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
        """Memory of all draws, in bytes."""
        return sum(reading.bytes for reading in self._held.values())

    def state(self, version: Version) -> State:
        """Return the state of a version's posterior."""
        if version.digest in self._held:
            return "ready"
        if version.digest in self._under_way:
            return "under way"
        return "stored" if version.draws is not None else "to be drawn"

    def close(self) -> None:
        """Start no new work."""
        for pool in (self._reading, self._drawing):
            pool.shutdown(wait=False, cancel_futures=True)

    async def get(self, version: Version) -> ServedPosterior:
        """Return the posterior of a version, read or drawn if needed.

        Raises:
            Problem: it takes longer than a request may wait, or the file cannot be read.
        """
        reading = self._held.get(version.digest)
        if reading is not None:
            self._held.move_to_end(version.digest)
            return reading
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
        """Read or draw a posterior, then drop others to make room."""
        try:
            loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
            reader: Callable[[], ServedPosterior] = lambda: read(version)  # noqa: E731
            reading = await loop.run_in_executor(self._drawing if version.draws is None else self._reading, reader)
        except DiscreetError as error:
            if version.draws is None:
                raise Problem("bad-request", f"this release has no posterior: {error}") from None
            raise Problem("unreadable", without_folders(str(error), [version.path, version.draws])) from None
        self._held[version.digest] = reading
        while self.bytes > self._limits.draws_bytes and len(self._held) > 1:
            self._held.popitem(last=False)
        return reading

    def _end(self, version: Version, done: asyncio.Task[ServedPosterior]) -> None:
        """Remove a finished task; those who waited for it have its error."""
        self._under_way.pop(version.digest, None)
        if not done.cancelled():
            done.exception()


def _read_stored(version: Version) -> ServedPosterior | None:
    """Read the stored draws of a version; None if there are none, or if they are of a newer version."""
    if version.draws is None:
        return None
    draws = load_draws(version.draws)
    if not version.digest.startswith(content_digest(evidence_in(version.draws))):
        return None
    if draws.more:
        raise Problem("bad-request", "draws with a latent node are not served; `discreet query` answers from them")
    reading = ServedPosterior(version, draws)
    return_memory()
    return reading


def read(version: Version) -> ServedPosterior:
    """Read stored draws, or draw the posterior; an older version whose draws were replaced is drawn."""
    if version.kind in ("structure", "weights"):
        return ServedPosterior(version, None)
    reading = _read_stored(version) or ServedPosterior(version, read_evidence(version.evidence, draws=DRAWS, rng=SEED))
    if version.gaps:
        _ = reading.complete  # compute it in this thread, not in one that answers
    return reading
