"""Which waiting pods the end of a victim concerns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.making_room.awaited_victims import ConcernedByVictim
from scheduler.messages.stimuli import Reconciled, ReconciliationStarted
from scheduler.objects.pod import Pod
from scheduler.testing.objects import pod
from tests.engine.driver import DELETED_AT, Cluster


class Record:
    def __init__(self, info: PodInfo) -> None:
        self.uid = info.uid


@pytest.mark.parametrize("is_waiting", [True, False])
@pytest.mark.parametrize("needs_all", [True, False])
@pytest.mark.parametrize("nominated", ["", "n", "m"])
def test_a_group_of_one_is_passed_over_just_where_its_pod_is_not_concerned(
    is_waiting: bool, needs_all: bool, nominated: str
) -> None:
    nominator = Nominator(None)
    info = PodInfo(pod("high"))
    if nominated:
        nominator.nominate(info, nominated)
    members: Mapping[str, Any] = {info.uid: Record(info)}
    waiting = {info.uid} if is_waiting else set()
    concerned = ConcernedByVictim(waiting, waiting if needs_all else set(), nominator, "n")
    assert concerned.may_concern(members) == bool(list(concerned.among(members)))
    assert concerned.may_concern(members) == (not is_waiting or not nominated or (nominated == "n" and not needs_all))


def test_a_pod_that_has_lost_its_nomination_hears_of_the_end_of_each_of_the_victims_it_was_to_wait_for() -> None:
    """Its own nomination's end says nothing to it: it does not repel itself."""
    repelled = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [repelled]}}
    cluster = Cluster()
    cluster.node("n", cpu="4")
    cluster.lingering = {"low-1", "low-2"}
    for name in ("low-1", "low-2"):
        cluster.pod(name, cpu="1", node="n", priority=1, labels={"app": "web"})
    cluster.pod("high", cpu="1", priority=100, affinity=affinity)
    cluster.settle()
    cluster.advance(60)
    assert (cluster.place("high"), cluster.nominated("high")) == ("unschedulable", "n")
    cluster.show(_without_nomination(cluster))
    assert (cluster.place("high"), cluster.nominated("high")) == ("unschedulable", "")
    cluster.delete("low-1")
    assert cluster.place("high") == "active"


TERMINATES = {
    "deleted": DELETED_AT,
    "status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
}


def test_a_pod_whose_victims_all_terminate_already_does_not_hear_of_the_end_of_those_of_another() -> None:
    cluster = Cluster()
    for name in ("n", "m"):
        cluster.node(name, cpu="1")
        cluster.pod(f"low-{name}", cpu="1", node=name, priority=1, **TERMINATES)
    cluster.pod("high", cpu="1", priority=100, node_selector={"kubernetes.io/hostname": "n"})
    cluster.settle()
    cluster.advance(60)
    assert (cluster.place("high"), cluster.nominated("high")) == ("unschedulable", "n")
    cluster.delete("low-m")
    assert cluster.place("high") == "unschedulable"
    cluster.delete("low-n")
    assert cluster.place("high") == "active"


def test_of_two_pods_that_wait_for_one_victim_each_may_go_before_it_does() -> None:
    cluster = Cluster()
    cluster.lingering = {"low"}
    cluster.node("n", cpu="4")
    cluster.pod("low", cpu="4", node="n", priority=1)
    for name, priority in (("high", 50), ("higher", 100)):
        cluster.pod(name, cpu="4", priority=priority)
        cluster.schedule()
        assert cluster.attempt(name).victims == ("default/low",)
    cluster.settle()
    for name in ("high", "higher"):
        cluster.delete(name)
    cluster.delete("low")
    cluster.settle()
    assert cluster.is_quiet()


def waiting_for_two() -> Cluster:
    """``high`` waits for two victims, which terminate; then the watch is in doubt, and ``high`` is tried once more."""
    cluster = Cluster()
    cluster.node("n", cpu="4")
    cluster.lingering = {"low-1", "low-2"}
    for name in ("low-1", "low-2"):
        cluster.pod(name, cpu="2", node="n", priority=1)
    cluster.pod("high", cpu="4", priority=100)
    cluster.settle()
    cluster.advance(60)
    assert (cluster.place("high"), cluster.nominated("high")) == ("unschedulable", "n")
    cluster.feed(ReconciliationStarted())
    cluster.unanswered.clear()  # the report for the comparison
    assert cluster.place("high") == "active"
    cluster.feed(Reconciled({}, {"pod-high": cluster.pods["default/high"]}))
    cluster.schedule_all()
    assert cluster.place("high") == "unschedulable"
    return cluster


def test_a_pod_that_was_tried_when_the_watch_was_in_doubt_hears_of_each_victim_afterwards() -> None:
    cluster = waiting_for_two()
    cluster.delete("low-1")
    assert cluster.place("high") in ("active", "backoff")
    cluster.delete("low-2")
    cluster.advance(60)
    cluster.settle()
    assert cluster.node_of("high") == "n"


def test_a_pod_that_goes_after_the_watch_was_in_doubt_leaves_nothing_to_its_victims_ends() -> None:
    cluster = waiting_for_two()
    cluster.delete("high")
    for name in ("low-1", "low-2"):
        cluster.delete(name)
    cluster.settle()
    assert cluster.is_quiet()


def _without_nomination(cluster: Cluster) -> Pod:
    high = cluster.pods["default/high"].nominated_to("")
    metadata = msgspec.structs.replace(high.metadata, resource_version="another")
    return msgspec.structs.replace(high, metadata=metadata)
