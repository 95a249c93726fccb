"""Two pods of a node with one host port, which no kubelet runs: kube-scheduler keeps the ports of a node as a set."""

from __future__ import annotations

from tests.engine.driver import Cluster

PORT = [80]


def test_a_port_that_the_other_pod_freed_is_taken_again_once_the_pod_that_has_it_is_updated() -> None:
    made = Cluster()
    made.node("n0")
    for name in ("stays", "goes"):
        made.pod(name, node="n0", ports=PORT)
    made.delete("goes")
    made.change("stays", annotations={"any": "update"})
    made.pod("wants", ports=PORT)
    made.schedule()
    assert "1 node(s) didn't have free ports" in made.attempt("wants").message


def test_a_status_that_takes_the_port_again_counts_for_a_pod_like_one_that_was_tried_before() -> None:
    made = Cluster()
    made.node("n0", cpu="1")
    for name in ("stays", "goes"):
        made.pod(name, node="n0", ports=PORT)
    made.delete("goes")
    made.pod("first", cpu="2", ports=PORT)
    made.schedule()
    assert "1 Insufficient cpu" in made.attempt("first").message
    made.pod("stays", node="n0", ports=PORT, phase="Running")
    made.pod("second", cpu="2", ports=PORT)
    made.schedule()
    assert "1 node(s) didn't have free ports" in made.attempt("second").message


def test_a_preemptor_sees_a_port_that_was_freed_though_the_pods_are_those_of_the_last_search() -> None:
    made = Cluster()
    made.node("n0", cpu="4")
    made.pod("stays", cpu="2", node="n0", priority=1000, ports=PORT)
    for name in ("low-0", "low-1"):
        made.pod(name, cpu="1", node="n0")
    made.pod("first", cpu="2", priority=100, ports=PORT)
    made.schedule()
    assert made.attempt("first").victims == ()
    made.pod("goes", node="n0", priority=1000, ports=PORT)
    made.delete("goes")
    made.pod("second", cpu="2", priority=100, ports=PORT)
    made.schedule()
    while made.attempts("second") == []:
        made.schedule()
    assert made.attempt("second").nominated_node == "n0"
    assert set(made.attempt("second").victims) == {"default/low-0", "default/low-1"}
