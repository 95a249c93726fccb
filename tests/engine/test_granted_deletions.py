"""Victims whose deletion is granted, as long as budgets may not count them yet."""

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.making_room.granted import BUDGET_SECONDS, LOST_SECONDS, GrantedDeletions
from scheduler.messages.now import Now
from scheduler.testing.objects import pod
from tests.builders import budget

BUDGETS = {"default/guard": budget("guard", {"app": "web"})}


def test_victims_are_forgotten_as_others_follow_also_where_no_budget_is_ever_asked_about() -> None:
    granted = GrantedDeletions()
    for number in range(100):
        granted.grant(PodInfo(pod(f"victim-{number}")), BUDGETS, Now(number * BUDGET_SECONDS, 0))

    assert len(granted.uncounted) == 1


def test_victims_of_the_last_seconds_are_kept() -> None:
    granted = GrantedDeletions()
    for number in range(3):
        granted.grant(PodInfo(pod(f"victim-{number}")), BUDGETS, Now(float(number), 0))

    assert [info.name for info in granted.uncounted.values()] == ["victim-0", "victim-1", "victim-2"]


def test_a_wall_clock_that_is_set_forward_makes_no_granted_deletion_a_lost_one() -> None:
    granted = GrantedDeletions()
    victim = pod("victim")
    granted.leaves(victim.uid, None, Now(100.0, 0))

    assert not granted.was_lost(victim, Now(101.0, 10**12))
    assert granted.was_lost(victim, Now(100.0 + LOST_SECONDS, 0))
