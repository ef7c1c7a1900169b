"""Where answers are computed: a few at once, the others in a queue that is not long; what is known is kept.

Nothing is computed twice at the same time: who asks what is under way waits for it. Who waits too long is told to ask
again; what was under way then goes on and is kept.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import NamedTuple, TypeVar

from discreet.errors import DiscreetError, InputError
from discreet.server.metrics import Meter
from discreet.server.problems import Problem
from discreet.server.server_limits import ServerLimits

T = TypeVar("T")
OVERHEAD_BYTES = 500
"""Of an answer that is kept, beside its content: its key, and what holds both."""
KEY_CHARACTERS = 200
"""Of a question, beyond which its digest stands for it."""
MOST_FAILURES = 1000
"""Questions that have no answer, of which the reason is kept."""
MOST_STREAMS = 16
"""Streams that are open at once; who does not take one is left after a minute."""
LARGE_WORK = 1e8
"""Cells times draws of an answer after which memory is given back: of threads it would stay for the next one."""
IDLE_SECONDS = 0.02
"""Between two looks whether somebody waits, before an answer is computed that nobody has asked for yet."""


class Made(NamedTuple):
    """The content of a response.

    Args:
        body: of it.
        media: its type.
    """

    body: bytes
    media: str = "application/json"


def _short(key: Hashable) -> Hashable:
    """A key, or the digest of one that is long: what is asked can be larger than any answer."""
    text = repr(key)
    return key if len(text) <= KEY_CHARACTERS else sha256(text.encode("utf-8", "surrogatepass")).digest()


class AnswerCache:
    """Answers by what was asked, those that were asked last, in so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[Hashable, Made] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Made | None:
        """The answer, if it is kept."""
        key = _short(key)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, made: Made) -> None:
        """Keep an answer, and forget those that were not asked for longest."""
        key = _short(key)
        before = self._kept.pop(key, None)
        self.bytes += len(made.body) - (len(before.body) if before is not None else -OVERHEAD_BYTES)
        self._kept[key] = made
        while self.bytes > self._most and self._kept:
            _, old = self._kept.popitem(last=False)
            self.bytes -= len(old.body) + OVERHEAD_BYTES


def check_work(predicted: float, most: float) -> None:
    """Refuse more work than a server does.

    Raises:
        Problem: it is more.
    """
    if predicted > most:
        raise Problem(
            "too-costly",
            f"this question works on {predicted:.2g} cells x draws, and this server answers up to {most:.2g}; ask for "
            "less at once, or ask the release itself",
        )


def return_memory() -> None:
    """Give back what a large answer or file took for a moment; where the system's library cannot, it stays."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class Desk:
    """Computes answers in threads.

    Args:
        limits: of the server.
        meter: counts what is done.
    """

    def __init__(self, limits: ServerLimits, meter: Meter) -> None:
        self._limits, self._meter = limits, meter
        self._pool = ThreadPoolExecutor(limits.workers, "answers")
        self._slots = asyncio.Semaphore(limits.workers)
        # Pieces of streams leave a worker to questions, where there are two.
        self._pieces = asyncio.Semaphore(max(1, limits.workers - 1))
        self._streams = 0
        self._failed: OrderedDict[Hashable, str] = OrderedDict()
        self._under_way: dict[Hashable, asyncio.Task[Made]] = {}
        self.cache = AnswerCache(limits.cache_bytes)

    @property
    def waiting(self) -> int:
        """Answers under way."""
        return len(self._under_way)

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def answer(self, key: Hashable, make: Callable[[], Made], work: Callable[[], float] | None = None) -> Made:
        """The answer to a question: kept, under way, or computed now.

        Args:
            key: of the question.
            make: computes it, in a thread.
            work: predicts how much that is; None: little.

        Raises:
            Problem: too much work, no room in the queue, or no answer in time.
        """
        key = _short(key)
        found = self.cache.get(key)
        self._meter.cache.labels("hit" if found is not None else "miss").inc()
        if found is not None:
            return found
        if key in self._failed:
            raise InputError(self._failed[key])
        task = self._under_way.get(key)
        if task is None:
            self._check_queue()
            task = asyncio.ensure_future(self._compute(key, make, work))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._end(key, done))
        return await self._in_time(task)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Have a stream open; refused where there are many.

        Raises:
            Problem: so many are open already.
        """
        self._check_queue()
        if self._streams >= MOST_STREAMS:
            raise Problem("busy", f"{self._streams} streams of records are open; ask again later", retry_after=5)
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    async def run(self, make: Callable[[], T]) -> T:
        """Do something in a thread that nobody else will ask for, such as the next piece of a stream that is open."""
        async with self._pieces, self._slots:
            return await asyncio.get_running_loop().run_in_executor(self._pool, make)

    async def prepare(self, questions: Iterable[tuple[Hashable, Callable[[], Made]]]) -> None:
        """Compute answers that nobody has asked for yet, one by one, while nobody waits."""
        for key, make in questions:
            while self._under_way:
                await asyncio.sleep(IDLE_SECONDS)
            if self.cache.get(key) is None:
                with suppress(DiscreetError):
                    await self._compute(key, make, None)
            await asyncio.sleep(0)

    def _check_queue(self) -> None:
        """Refuse what would wait too long."""
        if len(self._under_way) >= self._limits.queue + self._limits.workers:
            raise Problem(
                "busy",
                f"{len(self._under_way)} questions are waiting for their answers; ask again later",
                retry_after=1,
            )

    async def _compute(self, key: Hashable, make: Callable[[], Made], work: Callable[[], float] | None) -> Made:
        """Compute and keep."""

        def checked() -> Made:
            predicted = 0.0 if work is None else work()
            check_work(predicted, self._limits.most_work)
            try:
                return make()
            finally:
                if predicted > LARGE_WORK:
                    return_memory()

        try:
            async with self._slots:
                with self._meter.answer_seconds.time():
                    made = await asyncio.get_running_loop().run_in_executor(self._pool, checked)
        except InputError as error:  # who was told to ask again shall not have it computed again
            self._failed[key] = str(error)
            if len(self._failed) > MOST_FAILURES:
                self._failed.popitem(last=False)
            raise
        self.cache.put(key, made)
        return made

    def _end(self, key: Hashable, done: asyncio.Task[Made]) -> None:
        """Forget what is not under way any more; who waited for it has its error."""
        self._under_way.pop(key, None)
        if not done.cancelled():
            done.exception()

    async def _in_time(self, task: asyncio.Task[Made]) -> Made:
        """Wait, but not for ever; whoever leaves does not stop it for others."""
        try:
            return await asyncio.wait_for(asyncio.shield(task), self._limits.seconds)
        except TimeoutError:
            raise Problem(
                "not-ready",
                f"the answer takes longer than {self._limits.seconds:g} seconds; it is still computed, and kept: ask "
                "again later",
                retry_after=5,
            ) from None
