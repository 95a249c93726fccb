"""Counters, gauges and histograms that cost a fraction of a microsecond, exported by prometheus_client.

prometheus_client's own histograms take a lock and iterate over their buckets in Python: with a dozen observations per
attempt that would be a tenth of an attempt's time. These are used by one thread only, which also serves scrapes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from operator import mul
from typing import Generic, Protocol, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class CounterChild:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        self.value += amount


class HistogramChild:
    """One series of a histogram: the count of each bucket, and the sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


Child = TypeVar("Child", CounterChild, HistogramChild)


class _Family(Generic[Child]):
    """A metric with labels; callers that observe often should cache the ``child``."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self.name = name
        self.text = text
        self.label_names = tuple(labels)
        self._children: dict[tuple[str, ...], Child] = {}

    def _new(self) -> Child:
        raise NotImplementedError

    def child(self, *values: str) -> Child:
        """The series with these label values, in the order of the names; made when it is first asked for."""
        found = self._children.get(values)
        if found is None:
            found = self._children[values] = self._new()
        return found

    def reset(self) -> None:
        """Resets the numbers of all children, which stay valid."""
        raise NotImplementedError

    def collect(self) -> Metric:
        raise NotImplementedError


class Counter(_Family[CounterChild]):
    """A counter; ``name`` is without ``_total``."""

    def _new(self) -> CounterChild:
        return CounterChild()

    def reset(self) -> None:
        for child in self._children.values():
            child.value = 0.0

    def collect(self) -> Metric:
        family = CounterMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self._children.items():
            family.add_metric(values, child.value)
        return family


class Histogram(_Family[HistogramChild]):
    """A histogram with fixed buckets; ``bounds`` are their upper bounds, without +Inf."""

    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        super().__init__(name, text, labels)
        self._bounds = tuple(bounds)
        self._bound_texts = [*(repr(float(bound)) for bound in bounds), "+Inf"]

    def _new(self) -> HistogramChild:
        return HistogramChild(self._bounds)

    def reset(self) -> None:
        for child in self._children.values():
            child.counts = [0] * len(child.counts)
            child.sum = 0.0

    def collect(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self._children.items():
            total = 0
            buckets: list[tuple[str, float]] = []
            for bound, count in zip(self._bound_texts, child.counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric(values, buckets, child.sum)
        return family


class Gauge:
    """A gauge that is read when scraped: ``read`` yields (label values, number)."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], read: Callable[[], Iterable[tuple[tuple[str, ...], float]]]
    ) -> None:
        self.name = name
        self.text = text
        self.label_names = tuple(labels)
        self._read = read

    def reset(self) -> None:
        """Does nothing: gauges show the present state."""

    def collect(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.text, labels=self.label_names)
        for values, number in self._read():
            family.add_metric(values, number)
        return family


class ReadCounter(Gauge):
    """A counter whose value is maintained elsewhere."""

    def collect(self) -> Metric:
        family = CounterMetricFamily(self.name, self.text, labels=self.label_names)
        for values, number in self._read():
            family.add_metric(values, number)
        return family


class ReadHistogram:
    """A histogram maintained elsewhere: ``read`` yields (label values, count per bucket, sum)."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        read: Callable[[], Iterable[tuple[tuple[str, ...], Sequence[int], float]]],
    ) -> None:
        self.name = name
        self.text = text
        self.label_names = tuple(labels)
        self._bounds = tuple(bounds)
        self._read = read

    def reset(self) -> None:
        """Does nothing: the numbers are maintained elsewhere."""

    def collect(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.text, labels=self.label_names)
        for values, counts, total in self._read():
            family.add_metric(values, _cumulated(self._bounds, counts), total)
        return family


def _cumulated(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    texts = [*(repr(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(texts, map(float, accumulate(counts)), strict=True))


class Instrument(Protocol):
    """A metric family of the page."""

    name: str
    label_names: tuple[str, ...]

    def reset(self) -> None: ...

    def collect(self) -> Metric: ...


class Instruments(Collector):
    """All instruments of one prometheus_client registry."""

    def __init__(self) -> None:
        self._all: list[Instrument] = []

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        made = Counter(name, text, labels)
        self._all.append(made)
        return made

    def histogram(self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
        made = Histogram(name, text, labels, bounds)
        self._all.append(made)
        return made

    def add(self, made: Instrument) -> None:
        """Adds an instrument."""
        self._all.append(made)

    def labels(self) -> dict[str, tuple[str, ...]]:
        """The names of each family's labels, also of families without series so far."""
        return {instrument.name: instrument.label_names for instrument in self._all}

    def reset(self) -> None:
        for instrument in self._all:
            instrument.reset()

    def collect(self) -> Iterator[Metric]:
        for instrument in self._all:
            yield instrument.collect()

    def describe(self) -> Iterable[Metric]:
        return ()


def exponential(first: float, factor: float, count: int) -> list[float]:
    """Each bound is the one before it times the factor, as Go's client rounds them: a bound is a label, and series
    whose ``le`` differs in its last digit are not added up."""
    return list(accumulate(repeat(factor, count - 1), mul, initial=first))
