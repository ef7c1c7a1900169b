"""What the server counts of itself, in the text format of Prometheus: numbers alone, never what was asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time

SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""Ends of the bins of durations."""
HELP = {
    "requests": "Requests by route and status.",
    "cache": "Answers that were kept when they were asked for, or not.",
    "refused": "Requests that were refused, by kind of problem.",
}
LABELS = {"requests": ("route", "status"), "cache": ("found",), "refused": ("kind",)}


class Meter:
    """Counts events and durations; `gauges` are read when they are asked: what each is, and how to find it."""

    def __init__(self) -> None:
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "process_cpu_seconds_total": ("CPU seconds of the process.", process_time)
        }
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._bins: Counter[tuple[str, float]] = Counter()
        self._sums: defaultdict[str, float] = defaultdict(float)

    def count(self, what: str, *labels: str) -> None:
        """Count one event."""
        self._counts[what, labels] += 1

    def observe(self, what: str, seconds: float) -> None:
        """Count one duration."""
        self._bins[what, next((end for end in SECONDS if seconds <= end), float("inf"))] += 1
        self._sums[what] += seconds

    @contextmanager
    def time(self, what: str) -> Iterator[None]:
        """Count how long something takes."""
        begun = perf_counter()
        try:
            yield
        finally:
            self.observe(what, perf_counter() - begun)

    def text(self) -> str:
        """All of it."""
        lines: list[str] = []
        for what, told in HELP.items():
            lines += [f"# HELP discreet_{what}_total {told}", f"# TYPE discreet_{what}_total counter"]
            for (name, labels), number in sorted(self._counts.items()):
                if name == what:
                    pairs = ",".join(f'{key}="{value}"' for key, value in zip(LABELS[what], labels, strict=True))
                    lines.append(f"discreet_{what}_total{{{pairs}}} {number}")
        for what in sorted({name for name, _ in self._bins}):
            lines += [f"# HELP discreet_{what}_seconds Durations.", f"# TYPE discreet_{what}_seconds histogram"]
            below = 0
            for end in (*SECONDS, float("inf")):
                below += self._bins[what, end]
                lines.append(f'discreet_{what}_seconds_bucket{{le="{"+Inf" if end == float("inf") else end}"}} {below}')
            lines += [f"discreet_{what}_seconds_sum {self._sums[what]:.6f}", f"discreet_{what}_seconds_count {below}"]
        for name, (told, find) in self.gauges.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP discreet_{name} {told}", f"# TYPE discreet_{name} {kind}", f"discreet_{name} {find():g}"]
        return "\n".join(lines) + "\n"
