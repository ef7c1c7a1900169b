"""Compute answers in threads: a few at once, the others in a short queue; answers are cached.

Equal questions share one computation. A request that waits too long is asked to come again later; its answer is still
computed and cached.
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
"""Bytes of a cached answer beside its body: its key and the containers."""
KEY_CHARACTERS = 200
"""Characters of a key above which its digest is used instead."""
MOST_FAILURES = 1000
"""Failed questions whose errors are kept."""
MOST_STREAMS = 16
"""Most open streams; a stream that its client does not read is closed after a minute."""
LARGE_WORK = 1e8
"""Cells times draws of an answer above which freed memory is returned to the system, or threads would keep it."""
IDLE_SECONDS = 0.02
"""Seconds between checks for waiting requests, before an answer is computed in advance."""


class ResponseBody(NamedTuple):
    """The content of a response.

    Args:
        body: of it.
        media: its type.
    """

    body: bytes
    media: str = "application/json"


def _short(key: Hashable) -> Hashable:
    """Return a key, or the digest of a long one: a question can be larger than its answer."""
    text = repr(key)
    return key if len(text) <= KEY_CHARACTERS else sha256(text.encode("utf-8", "surrogatepass")).digest()


class AnswerCache:
    """The most recently used answers by question, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._answers: OrderedDict[Hashable, ResponseBody] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: Hashable) -> ResponseBody | None:
        """Return the cached answer, or None."""
        key = _short(key)
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def put(self, key: Hashable, answer: ResponseBody) -> None:
        """Cache an answer, and drop the least recently used ones."""
        key = _short(key)
        before = self._answers.pop(key, None)
        self.bytes += len(answer.body) - (len(before.body) if before is not None else -OVERHEAD_BYTES)
        self._answers[key] = answer
        while self.bytes > self._most and self._answers:
            _, old = self._answers.popitem(last=False)
            self.bytes -= len(old.body) + OVERHEAD_BYTES


def check_work(predicted: float, most: float) -> None:
    """Refuse a question that is too much work.

    Raises:
        Problem: the work exceeds `most`.
    """
    if predicted > most:
        raise Problem(
            "too-costly",
            f"this question needs {predicted:.2g} cells x draws, and this server computes up to {most:.2g}; ask for "
            "less at once, or use the release itself",
        )


def return_memory() -> None:
    """Return freed memory to the system, if its C library can."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class WorkQueue:
    """Computes answers in threads.

    Args:
        limits: of the server.
        meter: counts answers and their times.
    """

    def __init__(self, limits: ServerLimits, meter: Meter) -> None:
        self._limits, self._meter = limits, meter
        self._pool = ThreadPoolExecutor(limits.workers, "answers")
        self._slots = asyncio.Semaphore(limits.workers)
        # Of two or more workers, streams leave one to questions.
        self._pieces = asyncio.Semaphore(max(1, limits.workers - 1))
        self._streams = 0
        self._failed: OrderedDict[Hashable, str] = OrderedDict()
        self._under_way: dict[Hashable, asyncio.Task[ResponseBody]] = {}
        self.cache = AnswerCache(limits.cache_bytes)

    @property
    def waiting(self) -> int:
        """Number of answers under way."""
        return len(self._under_way)

    def close(self) -> None:
        """Start no new work."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def answer(
        self, key: Hashable, make: Callable[[], ResponseBody], work: Callable[[], float] | None = None
    ) -> ResponseBody:
        """Answer a question from the cache, from a computation under way, or by computing it now.

        Args:
            key: of the question.
            make: computes the answer, in a thread.
            work: predicts cells times draws; None means little work.

        Raises:
            Problem: too much work, no room in the queue, or no answer in time.
        """
        key = _short(key)
        answer = self.cache.get(key)
        self._meter.cache.labels("hit" if answer is not None else "miss").inc()
        if answer is not None:
            return answer
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
        """Count a stream as open; refuse it if there are too many.

        Raises:
            Problem: too many streams are open, or the queue is full.
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
        """Run a function in a thread, such as the next piece of an open stream; its result is not cached."""
        async with self._pieces, self._slots:
            return await asyncio.get_running_loop().run_in_executor(self._pool, make)

    async def prepare(self, questions: Iterable[tuple[Hashable, Callable[[], ResponseBody]]]) -> None:
        """Compute answers in advance, one by one, while no request waits."""
        for key, make in questions:
            while self._under_way:
                await asyncio.sleep(IDLE_SECONDS)
            if self.cache.get(key) is None:
                with suppress(DiscreetError):
                    await self._compute(key, make, None)
            await asyncio.sleep(0)

    def _check_queue(self) -> None:
        """Refuse a question if the queue is full."""
        if len(self._under_way) >= self._limits.queue + self._limits.workers:
            raise Problem(
                "busy",
                f"{len(self._under_way)} questions are waiting for their answers; ask again later",
                retry_after=1,
            )

    async def _compute(
        self, key: Hashable, make: Callable[[], ResponseBody], work: Callable[[], float] | None
    ) -> ResponseBody:
        """Compute an answer and cache it."""

        def checked() -> ResponseBody:
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
                    answer = await asyncio.get_running_loop().run_in_executor(self._pool, checked)
        except InputError as error:  # a client that asks again gets the error at once
            self._failed[key] = str(error)
            if len(self._failed) > MOST_FAILURES:
                self._failed.popitem(last=False)
            raise
        self.cache.put(key, answer)
        return answer

    def _end(self, key: Hashable, done: asyncio.Task[ResponseBody]) -> None:
        """Remove a finished computation; those who waited for it have its error."""
        self._under_way.pop(key, None)
        if not done.cancelled():
            done.exception()

    async def _in_time(self, task: asyncio.Task[ResponseBody]) -> ResponseBody:
        """Wait for an answer up to the time limit; the computation goes on for others."""
        try:
            return await asyncio.wait_for(asyncio.shield(task), self._limits.seconds)
        except TimeoutError:
            raise Problem(
                "not-ready",
                f"the answer takes longer than {self._limits.seconds:g} seconds; it is still being computed: ask again "
                "later",
                retry_after=5,
            ) from None
