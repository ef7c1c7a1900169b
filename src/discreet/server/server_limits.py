"""What a server spends on whom: all that a request can cost is bounded before it is begun."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    """Bounds of what is done for requests.

    Args:
        most_work: cells of inference times draws of one request, predicted; some 10^8 take a second of a core.
        most_records: synthetic records of one request.
        seconds: that a request waits for its answer at most; what is computed then is kept for the next one.
        workers: answers that are computed at once.
        queue: answers that wait for one of them at most.
        rate: requests a second of one token, or else of one address, in the long run.
        burst: requests of one token or address that may come at once.
        body_bytes: of a request.
        cache_bytes: of all answers that are kept.
        draws_bytes: of all posteriors that are held in memory; the one that was asked last stays in any case.
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
