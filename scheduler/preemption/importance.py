"""Which of two pods matters more (docs/kube-scheduler/preemption.md §5.3): higher priority, then running for longer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.timestamps import parse_time

LATER_THAN_ANY: Final = (1 << 63) - 1
"""In place of ``now`` where that is not known yet: pods without a start still come after all others."""


def start_time(info: PodInfo, now: int) -> int:
    """When the pod started, nanoseconds since 1970; ``now`` where that is not known: such a pod is the youngest."""
    started = info.pod.status.start_time
    return now if started is None else parse_time(started)


def most_important_first(pods: Iterable[PodInfo], now: int) -> list[PodInfo]:
    """The pods by importance; those of one priority and start time by namespace, name and UID, so that any order of
    ``pods`` gives the same. ``now``: nanoseconds since 1970, the same for the whole attempt."""
    return sorted(pods, key=lambda info: importance(info, now))


def importance(info: PodInfo, now: int) -> tuple[int, int, str, str]:
    """A sort key: the most important pod has the least."""
    return -info.priority, start_time(info, now), info.key, info.uid
