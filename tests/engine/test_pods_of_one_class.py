"""Pods of one class: what is kept for them where their labels differ, terms tell them apart, or stamps change."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.per_node import NodeView, PerNodeFilter
from scheduler.framework.plugin import NodeSubset, PreFilterPlugin, Reads, State
from scheduler.messages.status import SKIP, Refusal, Skip, unschedulable
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from scheduler.testing.fragments import affinity_json, pod_term
from tests.builders import service
from tests.engine.driver import Cluster

NOT_BESIDE_SOLO = affinity_json(anti_required=[pod_term({"solo": "y"})])


def full_node() -> Cluster:
    made = Cluster()
    made.node("n0", cpu="4")
    return made


def test_a_term_that_was_never_counted_for_a_pod_is_not_taken_away_with_a_victim() -> None:
    """Else it would take the place of the one that keeps the pod off, and the victims would go for nothing."""
    made = full_node()
    against = affinity_json(anti_required=[pod_term({"app": "cache"})])
    made.pod("keeps-off", cpu="1", node="n0", priority=1000, spec={"affinity": against})
    for name in ("low-0", "low-1"):
        made.pod(name, cpu="1", node="n0")
    made.pod("first", cpu="2", priority=100, labels={"app": "cache", "solo": "y"})
    made.schedule()
    made.pod("low-2", cpu="1", node="n0", spec={"affinity": NOT_BESIDE_SOLO})
    made.pod("second", cpu="2", priority=100, labels={"app": "cache"})
    made.schedule()
    for name in ("first", "second"):
        assert made.attempt(name).victims == ()
        assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in made.attempt(name).message


def test_a_pod_may_take_the_place_of_a_nominated_one_whose_term_does_not_match_it() -> None:
    made = full_node()
    for number in range(4):
        made.pod(f"low-{number}", cpu="1", node="n0")
    spec = {"affinity": NOT_BESIDE_SOLO, "preemptionPolicy": "Never"}
    made.pod("solo", cpu="2", priority=100, labels={"solo": "y"}, spec=spec)
    made.schedule()
    for name in ("db", "cache"):
        made.pod(name, cpu="2", priority=100, labels={"app": name}, spec={"affinity": NOT_BESIDE_SOLO})
        made.schedule()
        assert made.attempt(name).nominated_node == "n0"
    assert len(made.attempt("cache").victims) == 4


def test_a_namespace_tells_pods_of_one_class_apart_as_a_label_does() -> None:
    made = full_node()
    in_other = affinity_json(anti_required=[pod_term({"app": "a"}, namespaces=["other"])])
    for number in range(4):
        made.pod(f"low-{number}", cpu="1", node="n0")
    spec = {"affinity": in_other, "preemptionPolicy": "Never"}
    made.pod("first", namespace="other", cpu="2", priority=100, labels={"app": "a"}, spec=spec)
    made.schedule()
    for name in ("second", "third"):
        made.pod(name, cpu="2", priority=100, labels={"app": "a"}, spec={"affinity": in_other})
        made.schedule()
        assert made.attempt(name).nominated_node == "n0"


def test_what_is_kept_beside_nominated_pods_counts_as_memory_and_goes_when_no_pod_is_nominated() -> None:
    cluster = Cluster()
    cluster.lingering = {"low"}
    cluster.node("n", cpu="4")
    cluster.node("m", cpu="1")
    cluster.pod("low", cpu="4", node="n")
    cluster.pod("high", cpu="4", priority=10)
    cluster.settle()
    assert cluster.nominated("high") == "n"
    for priority in range(3):
        cluster.pod(f"other-{priority}", cpu="100m", priority=priority)
        cluster.schedule()
    classes = cluster.engine._context.classes
    kept = [each for each in classes._classes.values() if each.overlays]
    assert [len(each.overlays) for each in kept] == [3]
    [of_others] = kept
    of_others.weigh()
    assert of_others.nbytes > of_others.filters.nbytes + of_others.scores.nbytes
    cluster.delete("low")
    cluster.delete("high")
    cluster.pod("last", cpu="100m")
    cluster.schedule()
    assert not of_others.overlays


def test_pods_of_one_template_are_spread_from_the_moment_on_at_which_a_service_selects_them() -> None:
    cluster = Cluster()
    web = {"app": "web"}
    for name, zone, cpu in (("large", "a", "100"), ("small", "b", "4")):
        cluster.node(name, zone=zone, cpu=cpu)
    cluster.show(service("other", {"app": "other"}))
    for name in ("first", "second"):
        cluster.pod(name, cpu="1", labels=web)
        cluster.schedule()
    cluster.show(service("web", web))
    cluster.pod("third", cpu="1", labels=web)
    cluster.schedule()
    assert [cluster.node_of(name) for name in ("first", "second", "third")] == ["large", "large", "small"]


class SkippingWithoutServices(PerNodeFilter, PreFilterPlugin):
    """Closes the node n0 as soon as there is a service; ``at_first`` is its PreFilter answer before."""

    name = "SkippingWithoutServices"
    reads = Reads.NODE
    at_first: State | Skip = SKIP

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        return view.version(Kind.SERVICE)

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip:
        return State() if view.all(Kind.SERVICE) else self.at_first

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        is_closed = node.metadata.name == "n0" and bool(node_view.view.all(Kind.SERVICE))
        return unschedulable("closed") if is_closed else None


class RestrictedWithoutServices(SkippingWithoutServices):
    name = "RestrictedWithoutServices"
    at_first = NodeSubset(frozenset({"n0"}))


@pytest.mark.parametrize("plugin", [SkippingWithoutServices, RestrictedWithoutServices])
def test_a_filter_that_skipped_or_restricted_the_first_pods_of_a_class_is_asked_about_all_nodes_once_it_does_not(
    plugin: type[SkippingWithoutServices],
) -> None:
    cluster = Cluster(plugin)
    cluster.node("n0", cpu="100")
    cluster.node("n1", cpu="4")
    for name in ("first", "second"):
        cluster.pod(name, cpu="1")
        cluster.schedule()
    cluster.show(service("s", {"app": "web"}))
    cluster.pod("third", cpu="1")
    cluster.schedule()
    assert [cluster.node_of(name) for name in ("first", "second", "third")] == ["n0", "n0", "n1"]
