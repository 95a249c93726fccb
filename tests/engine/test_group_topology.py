"""Gangs that want all their nodes in one domain."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.per_node import NodeView, PerNodeFilter
from scheduler.framework.plugin import PreFilterPlugin, State
from scheduler.messages.status import Refusal, failure
from scheduler.objects.node import Node
from tests.engine.driver import DELETED_AT
from tests.engine.gangs import TOPOLOGY, ZONE, Gangs, topology, zones


def test_a_gang_gets_all_its_nodes_in_one_domain() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="1", b="2")
    cluster.node("nowhere", cpu="64")
    cluster.group(min_count=3, **topology())
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    assert {node[0] for node in cluster.bound().values()} == {"b"}
    assert len(cluster.bound()) == 3


def test_of_several_domains_the_fuller_one_is_taken() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="8", b="4", c="16")
    cluster.group(min_count=4, **topology())
    cluster.members(4, cpu="1")
    cluster.schedule_all()
    assert {node[0] for node in cluster.bound().values()} == {"b"}


def test_of_several_domains_the_one_for_more_pods_is_taken() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="1", b="4")
    cluster.group(min_count=2, **topology())
    cluster.members(6, cpu="1")
    cluster.schedule_all()
    assert {node[0] for node in cluster.bound().values()} == {"b"}
    assert len(cluster.bound()) == 6


def test_members_that_come_later_go_where_the_others_are() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="64", b="4")
    cluster.member("running", cpu="1", node="b0")
    cluster.group(min_count=2, **topology())
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert {node[0] for node in cluster.bound().values()} == {"b"}


def test_a_gang_that_fits_no_domain_says_of_how_many() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="1", b="1")
    cluster.group(min_count=3, **topology())
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    text = "0/2 placements are available, first placement status: pod group is unschedulable"
    assert cluster.conditions() == [("False", "Unschedulable", text)]
    said = sorted(cluster.reason_of(name)[1] for name in ("g0", "g1", "g2"))
    assert said[0] == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to "
        "placement-based pod group scheduling limitation"
    )


def test_with_both_gates_a_topology_is_named_as_what_forbids_preemption() -> None:
    cluster = Gangs(f"{TOPOLOGY},WorkloadAwarePreemption=true")
    zones(cluster, a="1")
    cluster.group(min_count=3, **topology())
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    said = sorted(cluster.reason_of(name)[1] for name in ("g0", "g1", "g2"))
    assert said[0].endswith("preemption: not eligible due to placement-based pod group scheduling limitation")


def test_a_gang_without_any_domain_says_so() -> None:
    cluster = Gangs(TOPOLOGY)
    cluster.node("n", cpu="8")
    cluster.group(min_count=2, **topology())
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert cluster.conditions() == [("False", "Unschedulable", "no feasible placements found")]
    assert cluster.reason_of("g0") == ("Unschedulable", "no feasible placements found")
    assert cluster.place("g0") == "error backoff"


def test_a_resource_that_no_member_asks_for_makes_no_domain_a_fuller_one() -> None:
    resources = [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 1}]
    args = {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}
    cluster = Gangs(TOPOLOGY, profile={"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]})
    for zone, cpu in (("a", "8"), ("b", "4")):
        cluster.node(f"{zone}0", cpu=cpu, labels={ZONE: zone}, allocatable={"example.com/gpu": "8"})
    cluster.pod("user-of-devices", node="a0", requests={"example.com/gpu": "8"})
    cluster.group(min_count=2, **topology())
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert set(cluster.bound().values()) == {"b0"}


class NeedsZone(PerNodeFilter):
    """Can't tell of nodes without a zone."""

    name = "NeedsZone"

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        return None if ZONE in node.metadata.labels else failure(f"no zone: {node.metadata.name}")


def test_a_node_outside_of_all_domains_ends_no_attempt() -> None:
    cluster = Gangs(TOPOLOGY, plugins=(NeedsZone,))
    zones(cluster, a="2", b="2")
    cluster.node("nowhere", cpu="64")
    cluster.group(min_count=2, **topology())
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert len(cluster.bound()) == 2


class AloneOnly(PreFilterPlugin, PerNodeFilter):
    """Can't tell of nodes that another pod is nominated to."""

    name = "AloneOnly"

    class Counted(State):
        def __init__(self, others: int = 0) -> None:
            self.others = others

        def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> State:
            return type(self)(self.others + sign)

    def pre_filter(self, pod: PodInfo, view: View) -> State:
        return self.Counted()

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        assert isinstance(state, self.Counted)
        return failure("not alone") if state.others else None


def test_a_node_outside_of_all_domains_that_another_pod_is_nominated_to_ends_no_attempt() -> None:
    cluster = Gangs(TOPOLOGY, plugins=(AloneOnly,))
    zones(cluster, a="2", b="2")
    cluster.node("nowhere", cpu="64")
    cluster.pod("leaving", node="nowhere", ports=[80], deleted=DELETED_AT)
    only = {"kubernetes.io/hostname": "nowhere"}
    cluster.pod("nominated", priority=10, nominated="nowhere", ports=[80], node_selector=only)
    cluster.schedule_all()
    assert cluster.nominated("nominated") == "nowhere"
    cluster.group(min_count=2, **topology())
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert len(cluster.bound()) == 2


def test_members_in_two_domains_are_an_error() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="4", b="4")
    cluster.member("one", cpu="1", node="a0")
    cluster.member("two", cpu="1", node="b0")
    cluster.group(min_count=2, **topology())
    cluster.members(1, cpu="1")
    cluster.schedule_all()
    text = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: a, b"
    assert cluster.conditions() == [("False", "SchedulerError", text)]


def test_a_member_on_a_node_of_no_domain_is_named_with_its_namespace() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="4")
    cluster.node("nowhere", cpu="4")
    cluster.member("one", cpu="1", node="nowhere")
    cluster.group(min_count=2, **topology())
    cluster.members(1, cpu="1")
    cluster.schedule_all()
    text = "cannot determine domain for already scheduled pods: no topology domain found for pod default/one"
    assert cluster.conditions() == [("False", "SchedulerError", text)]


def test_a_member_on_a_node_that_is_gone_is_named_with_its_namespace() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="4")
    cluster.member("one", cpu="1", node="gone")
    cluster.group(min_count=2, **topology())
    cluster.members(1, cpu="1")
    cluster.schedule_all()
    text = (
        "cannot determine domain for already scheduled pods: getting node for pod default/one: "
        'nodeinfo not found for node name "gone"'
    )
    assert cluster.conditions() == [("False", "SchedulerError", text)]


def test_the_nominated_node_of_a_member_outside_of_the_domain_is_skipped() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="1", b="4")
    cluster.group(min_count=3, **topology())
    cluster.member("g0", cpu="1", nominated="a0")
    cluster.member("g1", cpu="1")
    cluster.member("g2", cpu="1")
    cluster.schedule_all()
    assert {node[0] for node in cluster.bound().values()} == {"b"}


def test_an_attempt_on_placements_says_what_their_extension_points_took() -> None:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, a="4", b="4")
    cluster.group(min_count=2, **topology())
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    remembered = cluster.engine.group_reports.of("default/g")
    assert remembered is not None
    assert set(remembered.attempt.placement_seconds) == {"PlacementGenerate", "PlacementScore"}
