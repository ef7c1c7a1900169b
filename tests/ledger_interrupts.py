"""Interrupts at every place of a charge where Python lets one in, one after the other.

    python ledger_interrupts.py URL FIRST STEP

Signals are handled when a function of Python begins and when one of C has returned: there a profiler raises, instead of
a signal. Exceptions are kept with their tracebacks, as a notebook keeps them, and nothing is collected. Prints how many
places and interrupts there were, where the lock was not free, how many charges were reported but not written, and how
many connections were left open.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from types import FrameType

import discreet as dc
from ledger_storm import connections, take_lock


def hit(place: int, work: Callable[[], object]) -> int:
    """Run work and interrupt it at the place of this number; the number of places."""
    seen = 0

    def interrupt(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_return")
        if seen == place and event in ("call", "c_return"):
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def main(url: str, first: int, step: int) -> None:
    gc.disable()
    large, each = (dc.Guarantee(epsilon=e, delta=0, relation="add-remove", unit="record") for e in (10**6, "0.1"))
    account = dc.Ledger(url).open("a", large)
    done: list[str] = []
    kept: list[BaseException] = []

    def charge() -> None:
        number = f"r{len(done)}-{len(kept)}"
        account.charge(number, "laplace", each)
        done.append(number)

    charge()  # loads what is loaded once
    places = hit(0, charge)
    stuck = []
    for place in range(first, places, step):
        try:
            hit(place, charge)
        except KeyboardInterrupt as interrupt:
            kept.append(interrupt)
            try:
                take_lock(url, 0 if url.startswith("sqlite") else 5)
            except Exception:
                stuck.append(place)
                break  # nobody can charge any more
    paid = set() if stuck else {charge.release for charge in account.charges()}
    unpaid, left = len(set(done) - paid), connections(url)
    print(json.dumps({"places": places, "interrupts": len(kept), "stuck": stuck, "unpaid": unpaid, "left": left}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
