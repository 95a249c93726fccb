from __future__ import annotations

import itertools

from scheduler.cluster.pod_info import PodInfo
from scheduler.preemption.importance import most_important_first
from scheduler.testing.objects import pod
from tests.preemption.situations import NOW


def test_higher_priority_comes_first_then_the_older_pod_and_one_not_started_is_the_youngest() -> None:
    pods = [
        PodInfo(pod("high", priority=5, started="2026-02-02T00:00:00Z")),
        PodInfo(pod("old", priority=1, started="2026-01-01T00:00:00Z")),
        PodInfo(pod("young", priority=1, started="2026-01-01T00:00:01Z")),
        PodInfo(pod("not-started", priority=1)),
        PodInfo(pod("clock-ahead", priority=1, started="2026-06-01T00:00:01Z")),
        PodInfo(pod("no-priority", started="2025-01-01T00:00:00Z")),
        PodInfo(pod("negative", priority=-1, started="2025-01-01T00:00:00Z")),
    ]
    for shuffled in itertools.islice(itertools.permutations(pods), 0, 5040, 97):
        assert most_important_first(shuffled, NOW) == pods


def test_pods_that_nothing_else_tells_apart_go_by_name_and_uid() -> None:
    pods = [PodInfo(pod(name, uid=uid)) for name, uid in (("a", "2"), ("b", "0"), ("b", "1"))]
    assert most_important_first(pods[::-1], NOW) == pods
