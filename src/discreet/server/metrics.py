"""What the server counts of itself, in the text format of Prometheus: numbers alone, never what was asked."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

NAMESPACE = "discreet"
SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""Ends of the bins of durations."""


class Meter:
    """Counts events and durations of one server, in a registry of its own: a process may have several."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def counter(name: str, documentation: str, *labels: str) -> Counter:
            return Counter(name, documentation, labels, NAMESPACE, registry=self._registry)

        def histogram(name: str, documentation: str) -> Histogram:
            return Histogram(name, documentation, (), NAMESPACE, registry=self._registry, buckets=SECONDS)

        self.requests = counter("requests", "Requests by route and status.", "route", "status")
        self.cache = counter("cache", "Answers that were kept when they were asked for, or not.", "found")
        self.refused = counter("refused", "Requests that were refused, by kind of problem.", "kind")
        self.request_seconds = histogram("requests_seconds", "Durations of requests.")
        self.answer_seconds = histogram("answers_seconds", "Durations of answers that were computed.")
        ProcessCollector(NAMESPACE, registry=self._registry)

    def show(self, name: str, documentation: str, find: Callable[[], float]) -> None:
        """Show a number that is found when it is asked for."""
        Gauge(name, documentation, namespace=NAMESPACE, registry=self._registry).set_function(find)

    def text(self) -> str:
        """All of it; a whole number is written without the fraction that the library gives it."""
        return generate_latest(self._registry).decode().replace(".0\n", "\n")
