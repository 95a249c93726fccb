from __future__ import annotations

from scheduler.plugins.priority_sort import PrioritySort
from tests.plugins.clusters import info


def test_higher_priority_goes_first_and_among_equals_who_waited_longer() -> None:
    key = PrioritySort().sort_key
    waiting = {
        "late": key(info(priority=5), 20.0),
        "early": key(info(priority=5), 10.0),
        "urgent": key(info(priority=100), 30.0),
        "none": key(info(), 1.0),
        "negative": key(info(priority=-1), 0.0),
    }
    assert sorted(waiting, key=waiting.__getitem__) == ["urgent", "early", "late", "none", "negative"]
