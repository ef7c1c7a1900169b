"""Bound the work of a server: the cost of each request is limited before it starts."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    """Limits of a server.

    Args:
        most_work: predicted cells of inference times draws of one request; some 10^8 take a second of a core.
        most_records: synthetic records of one request.
        seconds: most that a request waits for its answer; the computation goes on, and its result is cached.
        workers: answers that are computed at once.
        queue: most answers that wait for a worker.
        rate: average requests a second of one token or address.
        burst: requests of one token or address that may come at once.
        body_bytes: of a request.
        cache_bytes: of all cached answers.
        draws_bytes: of all posteriors in memory; the one used last always stays.
    """

    most_work: float = 3e9
    most_records: int = 1_000_000
    seconds: float = 30.0
    workers: int = max(1, min(4, os.cpu_count() or 1))
    queue: int = 64
    rate: float = 100.0
    burst: int = 400
    body_bytes: int = 2**20
    cache_bytes: int = 2**25
    draws_bytes: int = 2**31
