"""What can be watched: counts and times, in the form that Prometheus reads.

Requests are counted by hand, in plain numbers, and only told in Prometheus' form: they are counted
thousands of times a second, and asked for every few seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_OUTCOMES = {"Decided": "decision", "Abstained": "abstention", "Asked": "question"}


class _Requests(Collector):
    """Requests by endpoint and status, and the times to answer them. For one thread."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, int], int] = {}
        # For each endpoint: how many in each bucket, those over the last, and the sum of all times.
        self.times: dict[tuple[str, str], list[float]] = {}

    def add(self, method: str, path: str, status: int, seconds: float) -> None:
        key = method, path, status
        self.counts[key] = self.counts.get(key, 0) + 1
        times = self.times.get(key[:2])
        if times is None:
            times = self.times[key[:2]] = [0.0] * (len(_SECONDS) + 2)
        times[bisect_left(_SECONDS, seconds)] += 1.0
        times[-1] += seconds

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Tell all of it."""
        counts = CounterMetricFamily(
            "bridle_requests", "Requests", labels=["method", "path", "status"]
        )
        for (method, path, status), count in self.counts.items():
            counts.add_metric([method, path, str(status)], count)
        yield counts
        times = HistogramMetricFamily(
            "bridle_request_seconds", "Time to answer", labels=["method", "path"]
        )
        for (method, path), (*buckets, total) in self.times.items():
            ends = [*map(str, _SECONDS), "+Inf"]
            sums = [sum(buckets[: i + 1]) for i in range(len(ends))]
            times.add_metric([method, path], list(zip(ends, sums, strict=True)), total)
        yield times


class Metrics:
    """Counts of one service, apart from those of any other in the same process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = _Requests()
        registry.register(self._requests)
        self._groups = Histogram(
            "bridle_group_size", "Pieces of work in one commit", registry=registry, buckets=_GROUPS
        )
        self._commits = Counter("bridle_commits", "Groups that were committed", registry=registry)
        self._failures = Counter(
            "bridle_store_failures", "Groups that the store failed to commit", registry=registry
        )
        self._events = Counter("bridle_events", "Events by kind", ["kind"], registry=registry)
        self._outcomes = Counter(
            "bridle_outcomes", "Decisions, abstentions, questions", ["outcome"], registry=registry
        )
        for outcome in _OUTCOMES.values():
            self._outcomes.labels(outcome)

    def watch(self, name: str, words: str, value: Callable[[], float]) -> None:
        """Add a value that is looked up whenever it is asked for."""
        Gauge(f"bridle_{name}", words, registry=self._registry).set_function(value)

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request. `path` is the table's, so that there are few."""
        self._requests.add(method, path, status, seconds)

    def group(self, size: int, failed: bool) -> None:
        """Count a group of work that was committed, or that failed."""
        self._groups.observe(size)
        (self._failures if failed else self._commits).inc()

    def recorded(self, counts: Mapping[str, int]) -> None:
        """Count events that were committed, by kind."""
        for kind, count in counts.items():
            self._events.labels(kind).inc(count)
            outcome = _OUTCOMES.get(kind)
            if outcome is not None:
                self._outcomes.labels(outcome).inc(count)

    def text(self) -> bytes:
        """Give all of it."""
        return generate_latest(self._registry)
