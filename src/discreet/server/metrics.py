"""Count requests and times in the text format of Prometheus: numbers only, never the content of a request."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

NAMESPACE = "discreet"
SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""Upper bounds of the bins of durations, in seconds."""


class Meter:
    """Counters and durations of one server, in a separate registry: a process may run several servers."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def counter(name: str, documentation: str, *labels: str) -> Counter:
            return Counter(name, documentation, labels, NAMESPACE, registry=self._registry)

        def histogram(name: str, documentation: str) -> Histogram:
            return Histogram(name, documentation, (), NAMESPACE, registry=self._registry, buckets=SECONDS)

        self.requests = counter("requests", "Requests by route and status.", "route", "status")
        self.cache = counter("cache", "Answers found in the cache, or not.", "found")
        self.refused = counter("refused", "Refused requests by kind of problem.", "kind")
        self.request_seconds = histogram("requests_seconds", "Durations of requests.")
        self.answer_seconds = histogram("answers_seconds", "Durations of computed answers.")
        ProcessCollector(NAMESPACE, registry=self._registry)

    def show(self, name: str, documentation: str, find: Callable[[], float]) -> None:
        """Register a number that is read whenever metrics are."""
        Gauge(name, documentation, namespace=NAMESPACE, registry=self._registry).set_function(find)

    def text(self) -> str:
        """Return all metrics; whole numbers without the fraction that the library gives them."""
        return generate_latest(self._registry).decode().replace(".0\n", "\n")
