from __future__ import annotations

import pytest

from scheduler.framework.events import Hint
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.plugins.node_ports import NodePorts
from scheduler.testing.fragments import Json, container_json
from scheduler.testing.objects import node, pod
from tests.plugins.clusters import cluster, info, refusals


def port(number: int, ip: str | None = None, protocol: str | None = None) -> Json:
    written: Json = {"containerPort": 80, "hostPort": number}
    if ip is not None:
        written["hostIP"] = ip
    if protocol is not None:
        written["protocol"] = protocol
    return written


def test_a_taken_port_refuses_the_node_and_preemption_may_help() -> None:
    view = cluster([node("a"), node("b")], [pod("p", node="a", ports=[8080])])
    assert refusals(NodePorts(), info(ports=[8080]), view) == {
        "a": Refusal(Code.UNSCHEDULABLE, ("node(s) didn't have free ports for the requested pod ports",))
    }


@pytest.mark.parametrize(
    ("wanted", "used", "conflict"),
    [
        (port(80), port(80), True),
        (port(80), port(81), False),
        (port(80, protocol="UDP"), port(80), False),
        (port(80, "10.0.0.1"), port(80, "10.0.0.2"), False),
        (port(80, "10.0.0.1"), port(80, "10.0.0.1"), True),
        (port(80, "0.0.0.0"), port(80, "10.0.0.1"), True),
        (port(80, "10.0.0.1"), port(80), True),
        (port(80, "::"), port(80, "10.0.0.1"), False),
    ],
)
def test_addresses_protocols_and_ports_decide_what_is_in_the_way(wanted: Json, used: Json, conflict: bool) -> None:
    view = cluster([node("a")], [pod("p", node="a", ports=[used])])
    assert bool(refusals(NodePorts(), info(ports=[wanted]), view)) is conflict


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    view = cluster([node("a")], [pod("p", node="a", ports=[80])])
    sidecar = info(init_containers=[container_json("s", ports=[80], sidecar=True)])
    init = info(init_containers=[container_json("i", ports=[80])])
    assert refusals(NodePorts(), sidecar, view)
    assert NodePorts().pre_filter(init, view) is SKIP


def test_only_a_leaving_pod_with_the_same_port_wakes_pods() -> None:
    hint = NodePorts().events()[0].hint
    pending = info("pending", ports=[80])
    assert hint(pending, info("x", node="a", ports=[80]), None) is Hint.QUEUE
    assert hint(pending, info("x", nominated="a", ports=[80]), None) is Hint.QUEUE
    assert hint(pending, info("x", ports=[80]), None) is Hint.SKIP
    assert hint(pending, info("x", node="a", ports=[81]), None) is Hint.SKIP
    assert hint(pending, info("x", node="a"), None) is Hint.SKIP
