"""``plugin_evaluation_total``: the plugins that did not skip, counted once per attempt.

kube-scheduler 1.36 counts calls, so Filter and Score count once per node; here most answers are shared by equivalent
pods, and the number of calls would be meaningless.
"""

from __future__ import annotations

from collections import Counter

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric


class Evaluations:
    """``name`` without ``_total``. An attempt costs two look-ups of sets with cached hashes; they are split by plugin
    when the page is read."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.label_names: tuple[str, ...] = ("plugin", "extension_point", "profile")
        self._counts: dict[str, Counter[frozenset[tuple[str, str]]]] = {}
        """Profile → set of (plugin, point) evaluated in one attempt → number of attempts."""

    def note(self, profile: str, evaluated: frozenset[tuple[str, str]]) -> None:
        if evaluated:
            counts = self._counts.get(profile)
            if counts is None:
                counts = self._counts[profile] = Counter()
            counts[evaluated] += 1

    def reset(self) -> None:
        self._counts.clear()

    def collect(self) -> Metric:
        family = CounterMetricFamily(self.name, self.text, labels=self.label_names)
        for profile, counts in self._counts.items():
            totals: Counter[tuple[str, str]] = Counter()
            for evaluated, count in counts.items():
                for each in evaluated:
                    totals[each] += count
            for (plugin, point), total in sorted(totals.items()):
                family.add_metric((plugin, point, profile), total)
        return family
