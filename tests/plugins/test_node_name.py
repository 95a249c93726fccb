from __future__ import annotations

from scheduler.framework.events import always_queue
from scheduler.messages.status import Code
from scheduler.plugins.node_name import NodeName
from scheduler.testing.objects import node
from tests.plugins.clusters import cluster, info, refusals

NODES = [node("a"), node("b"), node("c")]


def test_a_pod_that_names_its_node_fits_there_only() -> None:
    found = refusals(NodeName(), info(node="b"), cluster(NODES))
    assert sorted(found) == ["a", "c"]
    assert {(refusal.code, refusal.message) for refusal in found.values()} == {
        (Code.UNRESOLVABLE, "node(s) didn't match the requested node name")
    }


def test_a_name_that_no_node_has_fits_nowhere() -> None:
    assert sorted(refusals(NodeName(), info(node="nowhere"), cluster(NODES))) == ["a", "b", "c"]


def test_a_pod_that_names_none_fits_anywhere() -> None:
    assert not refusals(NodeName(), info(), cluster(NODES))


def test_every_new_node_wakes_pods() -> None:
    (registration,) = NodeName().events()
    assert registration.hint is always_queue
