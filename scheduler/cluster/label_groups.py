"""Groups of pods that have the same namespace and labels, and the labels that they are found by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.cluster.row_counts import RowCounts

Labels = frozenset[tuple[str, str]]
GroupKey = tuple[str, Labels]
"""A namespace, and the labels of pods there."""

ANY_LABEL = ("", "")
"""In the place of a label: every group of the namespace."""
MANY_LABELS = ("", "many")
"""In the place of a label: the groups that are compared with every selector."""
MAX_FILED_LABELS: Final = 1_000
"""A group with more labels is filed under none of them: 55,000, which one pod can have, take 50 ms to file."""


class LabelGroup:
    """The pods of one namespace that have the same labels."""

    __slots__ = ("counters", "key", "labels", "rows", "terminating")

    def __init__(self, key: GroupKey, labels: Mapping[str, str]) -> None:
        self.key = key
        """The very object under which it is filed: a dictionary compares another one label by label."""
        self.labels = labels
        self.rows: dict[int, int] = {}
        """Pods on each row, terminating ones included."""
        self.terminating: dict[int, int] = {}
        self.counters: tuple[int, ...] = ()
        """Ids of the counters that these labels match."""

    def add_to(self, total: RowCounts, *, live_only: bool) -> None:
        for row, pods in self.rows.items():
            total.add(row, pods)
        if live_only:
            for row, pods in self.terminating.items():
                total.add(row, -pods)

    def copied(self) -> LabelGroup:
        other = LabelGroup(self.key, self.labels)
        other.rows = dict(self.rows)
        other.terminating = dict(self.terminating)
        other.counters = self.counters
        return other


def filed_under(group: LabelGroup) -> list[tuple[str, str]]:
    """The labels, or what stands in the place of one, that lead to the group."""
    if len(group.labels) > MAX_FILED_LABELS:
        return [ANY_LABEL, MANY_LABELS]
    return [ANY_LABEL, *group.labels.items()]
