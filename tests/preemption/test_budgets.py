from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.preemption.budgets import usable_budgets
from scheduler.testing.objects import pod
from tests.builders import budget

WEB = {"app": "web"}


def info(name: str, labels: dict[str, str] | None = None, **fields: Any) -> PodInfo:
    return PodInfo(pod(name, labels=WEB if labels is None else labels, **fields))


def violating(pods: Sequence[PodInfo], *budgets: PodDisruptionBudget, in_flight: Sequence[PodInfo] = ()) -> list[str]:
    found, others = usable_budgets({each.key: each for each in budgets}, in_flight).split(pods)
    assert sorted(one.name for one in [*found, *others]) == sorted(one.name for one in pods)
    return [one.name for one in found]


def test_the_most_important_pods_use_up_what_is_allowed() -> None:
    pods = [info("first"), info("second"), info("third")]
    assert violating(pods, budget("b", WEB, allowed=1)) == ["second", "third"]
    assert violating(pods, budget("b", WEB, allowed=3)) == []
    assert violating(pods, budget("b", WEB, allowed=-1)) == ["first", "second", "third"]


def test_a_pod_under_several_budgets_violates_if_one_is_exhausted_and_takes_from_all() -> None:
    pods = [info("both", {"app": "web", "tier": "front"}), info("front", {"tier": "front"})]
    exhausted = budget("web", WEB, allowed=0)
    assert violating(pods, exhausted, budget("front", {"tier": "front"}, allowed=1)) == ["both", "front"]
    assert violating(pods, exhausted, budget("front", {"tier": "front"}, allowed=2)) == ["both"]


def test_budgets_of_other_namespaces_and_pods_without_labels_are_left_out() -> None:
    absent = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    assert violating([info("a")], budget("b", WEB, namespace="other")) == []
    assert violating([info("bare", {}), info("b", {"tier": "x"})], budget("b", absent)) == ["b"]


def test_absent_empty_and_invalid_selectors_match_nothing() -> None:
    invalid = {"matchExpressions": [{"key": "app", "operator": "Sometimes"}]}
    assert violating([info("a")], budget("none", None), budget("all", {}), budget("bad", invalid)) == []


def test_a_disruption_that_was_granted_already_is_not_counted_again() -> None:
    granted = budget("b", WEB, allowed=0, disrupted={"a": "2026-01-01T00:00:00Z"})
    assert violating([info("a"), info("b")], granted) == ["b"]


def test_victims_in_flight_are_subtracted_once() -> None:
    pods = [info("a"), info("b"), info("c")]
    gone = info("gone")
    assert violating(pods, budget("b", WEB, allowed=2), in_flight=[gone]) == ["b", "c"]
    assert violating(pods, budget("b", WEB, allowed=2), in_flight=[pods[0]]) == ["c"]
    granted = budget("b", WEB, allowed=2, disrupted={"gone": "2026-01-01T00:00:00Z"})
    assert violating(pods, granted, in_flight=[gone]) == ["c"]
