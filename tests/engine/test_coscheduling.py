"""Groups of pods by the PodGroup of scheduler-plugins (docs/kube-scheduler/podgroups.md §12)."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cluster.groups.coscheduling import LABEL, PERMIT_SECONDS
from scheduler.engine.explain_groups import group_page
from scheduler.engine.group_attempt import GroupResult
from scheduler.messages.commands import DeletePod, PatchGroupStatus
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved
from scheduler.objects.coscheduling import PodGroup
from scheduler.objects.kinds import Kind
from scheduler.testing.objects import build
from tests.engine.gangs import GANGS, Gangs, group

ENABLED = {"groups": {"coscheduling": {"enabled": True}}}
RAY = {"schedulerName": "scheduler-plugins-scheduler"}


def pod_group(name: str = "g", version: str = "1", **spec: Any) -> PodGroup:
    metadata = {"name": name, "namespace": "default", "uid": f"crd-{name}", "resourceVersion": version}
    return build(PodGroup, {"metadata": metadata, "spec": spec})


class Coscheduling(Gangs):
    def __init__(self, gates: str = "", **settings: Any) -> None:
        super().__init__(gates, **({"tandem": ENABLED} | settings))

    def crd(self, name: str = "g", version: str = "1", **spec: Any) -> None:
        self.feed(ObjectObserved(Kind.COSCHEDULING_POD_GROUP, pod_group(name, version, **spec)))

    def labelled(self, *names: str, of: str = "g", **fields: Any) -> None:
        for name in names:
            self.pod(name, labels={LABEL: of}, **fields)


def test_pods_with_the_label_start_together_once_there_are_enough() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.labelled("head", cpu="1")
    assert cluster.place("head") == "gated"
    cluster.crd(minMember=3, minResources={"cpu": "3"})
    cluster.labelled("worker0", cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    cluster.labelled("worker1", cpu="1")
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["head", "worker0", "worker1"]


def test_a_waiting_pod_whose_label_changes_completes_the_quorum_of_its_new_group() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.crd(minMember=3)
    cluster.labelled("a", "b", cpu="1")
    cluster.labelled("c", of="other", cpu="1")
    cluster.schedule_all()
    assert [cluster.place(name) for name in "abc"] == ["gated"] * 3
    cluster.change("c", labels={LABEL: "g"})
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["a", "b", "c"]
    assert cluster.engine.cache.groups.members("default/other").count == 0


def test_a_pod_whose_turn_has_come_is_held_by_the_gate_of_the_group_that_its_label_moves_it_to() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.crd(minMember=2)
    cluster.labelled("a", "b", "c", cpu="1")
    assert [cluster.place(name) for name in "abc"] == ["active"] * 3
    cluster.change("c", labels={LABEL: "other"})
    assert cluster.place("c") == "gated"
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["a", "b"]


def test_a_running_pod_that_gets_the_label_completes_the_quorum() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.crd(minMember=3)
    cluster.labelled("a", "b", cpu="1")
    cluster.pod("c", cpu="1", node="n")
    cluster.schedule_all()
    assert cluster.bound() == {}
    cluster.change("c", labels={LABEL: "g"})
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["a", "b"]


def test_a_pod_that_loses_the_label_is_tried_alone_and_counts_for_its_group_no_more() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="2")
    cluster.crd(minMember=3)
    cluster.labelled("a", "b", "c", cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    cluster.change("c", labels={})
    for _ in range(20):
        cluster.schedule_all()
        cluster.advance(1)
    assert list(cluster.bound()) == ["c"]
    assert [cluster.place(name) for name in "ab"] == ["gated"] * 2
    assert cluster.engine.cache.assumed_count == 1
    cluster.delete("c")
    assert cluster.engine.cache.groups.members("default/g").count == 2


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_member_whose_label_changes_while_its_group_is_tried_is_left_out_and_tried_again(steps: int) -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.crd(minMember=3)
    cluster.labelled("a", "b", "c", cpu="1")
    for _ in range(steps):
        cluster.schedule()
    was_bound = len(cluster.bound())
    cluster.change("c", labels={LABEL: "other"})
    for _ in range(20):
        cluster.schedule_all()
        cluster.advance(1)
    if not was_bound:
        assert cluster.bound() == {}
        assert cluster.place("c") == "gated"
        assert cluster.engine.cache.assumed_count == 0
    cluster.labelled("d", cpu="1")
    for _ in range(20):
        cluster.schedule_all()
        cluster.advance(1)
    assert {"a", "b", "d"} <= cluster.bound().keys()


def test_a_group_that_does_not_fit_holds_no_room_and_is_tried_with_a_back_off() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="2")
    cluster.crd(minMember=3)
    cluster.labelled("a", "b", "c", cpu="1")
    for _ in range(60):
        cluster.schedule_all()
        cluster.advance(1)
    remembered = cluster.engine.group_reports.of("default/g")
    assert remembered is not None
    assert remembered.attempt.result is GroupResult.UNSCHEDULABLE
    assert 5 <= remembered.attempts <= 12
    assert cluster.engine.cache.assumed_count == 0
    cluster.node("m", cpu="1")
    cluster.schedule_all()
    assert len(cluster.bound()) == 3


def test_a_group_is_not_tried_before_the_cluster_has_its_least_resources() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4", memory="8Gi")
    cluster.crd(minMember=2, minResources={"cpu": "6", "memory": "4Gi", "example.com/gpu": "1"})
    cluster.labelled("a", "b", cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    remembered = cluster.engine.group_reports.of("default/g")
    assert remembered is not None
    assert remembered.attempt.message == "resource gap: 2 cpu, 1 example.com/gpu"
    assert cluster.reason_of("a") == ("Unschedulable", "resource gap: 2 cpu, 1 example.com/gpu")
    cluster.node("m", cpu="2", memory="8Gi", allocatable={"example.com/gpu": "1"})
    cluster.advance(30)
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["a", "b"]


def test_an_object_that_demands_thousands_of_resources_is_named_a_few_of_them() -> None:
    """The text is written about each member."""
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.crd(minMember=2, minResources={f"example.com/{number}": "1" for number in range(2_000)})
    cluster.labelled("a", "b", cpu="1")
    cluster.schedule_all()
    reason, message = cluster.reason_of("a")
    assert reason == "Unschedulable"
    assert message.startswith("resource gap: 1 example.com/0, 1 example.com/1, ")
    assert message.endswith("1 example.com/9, and more")


def test_what_the_pods_of_the_group_hold_counts_towards_its_least_resources() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4", allocatable={"example.com/gpu": "2"})
    cluster.pod("first", labels={LABEL: "g"}, cpu="3", requests={"example.com/gpu": "2"}, node="n")
    cluster.crd(minMember=2, minResources={"cpu": "4", "example.com/gpu": "2"})
    cluster.labelled("second", cpu="1")
    cluster.schedule_all()
    assert list(cluster.bound()) == ["second"]


def test_a_least_resource_that_is_no_quantity_is_named_to_each_pod_and_stops_only_this_group() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="8")
    cluster.crd(minMember=2, minResources={"cpu": "1", "memory": "lots"})
    cluster.labelled("a", "b", cpu="1")
    cluster.crd("fine", minMember=2, minResources={"cpu": "1"})
    cluster.labelled("c", "d", of="fine", cpu="1")
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["c", "d"]
    said = (
        "podgroup.scheduling.x-k8s.io g: spec.minResources[memory]: 'lots' is not a quantity: it must be a number with "
        "one of the suffixes of Kubernetes"
    )
    assert [cluster.reason_of(name) for name in "ab"] == [("SchedulerError", said)] * 2
    page = group_page(cluster.engine, "default/g")
    assert page is not None
    assert (page["attempt"]["result"], page["attempt"]["message"]) == ("error", said)
    cluster.crd(version="2", minMember=2, minResources={"memory": "1Gi"})
    for _ in range(15):
        cluster.advance(1)
        cluster.schedule_all()
    assert sorted(cluster.bound()) == ["a", "b", "c", "d"]


def test_the_room_of_its_own_pods_counts_among_a_groups_least_resources() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.crd(minMember=2, minResources={"cpu": "4"})
    cluster.labelled("running", cpu="2", node="n")
    cluster.labelled("late", cpu="1")
    cluster.schedule_all()
    assert list(cluster.bound()) == ["late"]


def test_a_group_removes_pods_as_one_and_no_more_than_it_needs() -> None:
    cluster = Coscheduling()
    cluster.nodes_like(2, cpu="2")
    for number in range(4):
        cluster.pod(f"low{number}", cpu="1", node=f"n{number // 2}", priority=number)
    cluster.crd(minMember=3)
    cluster.labelled("a", "b", "c", cpu="1", priority=10)
    for _ in range(20):
        cluster.settle()
        cluster.advance(1)
    deleted = [command.pod.name for command in cluster.sent if isinstance(command, DeletePod)]
    assert sorted(deleted) == ["low0", "low1", "low2"]
    assert all(cluster.pods[f"default/{name}"].node_name for name in "abc")


def test_the_least_important_pod_decides_what_a_group_may_remove() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="2")
    for number in range(2):
        cluster.pod(f"low{number}", cpu="1", node="n", priority=5)
    cluster.crd(minMember=2)
    cluster.labelled("a", cpu="1", priority=10)
    cluster.labelled("b", cpu="1", priority=5)
    cluster.schedule_all()
    assert not [command for command in cluster.sent if isinstance(command, DeletePod)]


def test_a_smaller_quorum_lets_pods_go_that_wait_for_more() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.crd(minMember=3)
    cluster.labelled("a", "b", cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    cluster.crd(version="2", minMember=2)
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["a", "b"]


def test_attempts_write_no_condition_to_a_custom_resource_that_has_none() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="4")
    cluster.crd(minMember=1)
    cluster.labelled("a", cpu="1")
    cluster.schedule_all()
    assert list(cluster.bound()) == ["a"]
    assert not [one for one in cluster.sent if isinstance(one, PatchGroupStatus)]


def test_without_the_setting_the_label_means_nothing() -> None:
    cluster = Coscheduling(tandem={})
    cluster.node("n", cpu="4")
    cluster.labelled("a", cpu="1")
    cluster.schedule_all()
    assert list(cluster.bound()) == ["a"]


def test_a_profile_may_have_the_name_that_kuberay_writes() -> None:
    cluster = Coscheduling(profile=RAY)
    cluster.node("n", cpu="4")
    cluster.crd(minMember=2)
    cluster.labelled("a", "b", cpu="1", scheduler="scheduler-plugins-scheduler")
    cluster.schedule_all()
    assert sorted(cluster.bound()) == ["a", "b"]


def test_groups_of_both_apis_with_one_name_are_read_side_by_side() -> None:
    cluster = Coscheduling(GANGS)
    cluster.node("n", cpu="4")
    cluster.group("g", min_count=5)
    cluster.crd("g", minMember=1)
    groups = cluster.engine.cache.groups
    found = groups.get("default/g")
    assert found is not None and found.min_count == 5
    cluster.feed(ObjectDeleted(Kind.POD_GROUP, group("g")))
    found = groups.get("default/g")
    assert found is not None and found.min_count == 1


def test_one_name_for_the_groups_of_two_apis_is_warned_of_once() -> None:
    cluster = Coscheduling(GANGS)
    cluster.group("g", min_count=5)
    cluster.crd("other")
    assert cluster.problems() == []
    cluster.crd("g", minMember=1)
    cluster.crd("g", version="2", minMember=2)
    (warning,) = cluster.problems()
    assert warning.startswith("default/g is a PodGroup of two APIs")
    assert "that of scheduling.k8s.io speaks for it" in warning


def test_how_long_a_member_waits_for_the_others_is_stated_or_a_minute() -> None:
    cluster = Coscheduling()
    cluster.crd("stated", minMember=1, scheduleTimeoutSeconds=10)
    cluster.crd("zero", minMember=1, scheduleTimeoutSeconds=0)
    cluster.crd("silent")
    groups = cluster.engine.cache.groups
    found = [groups.get(f"default/{name}") for name in ("stated", "zero", "silent")]
    assert [group and group.permit_seconds for group in found] == [10.0, PERMIT_SECONDS, PERMIT_SECONDS]


def test_a_group_that_is_deleted_leaves_nothing_behind() -> None:
    cluster = Coscheduling()
    cluster.node("n", cpu="1")
    cluster.crd(minMember=2)
    cluster.labelled("a", "b", cpu="1")
    cluster.schedule_all()
    for name in ("a", "b"):
        cluster.delete(name)
    cluster.feed(ObjectDeleted(Kind.COSCHEDULING_POD_GROUP, pod_group()))
    assert list(cluster.engine.cache.groups.keys) == []
    assert cluster.engine.group_reports.of("default/g") is None
