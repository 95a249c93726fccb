from __future__ import annotations

from scheduler.framework.events import Hint
from scheduler.messages.status import Code
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.testing.objects import node
from tests.plugins.clusters import cluster, info, refusals

CORDONED = node("n", unschedulable=True)
OPEN = node("n")


def test_a_cordoned_node_is_refused_for_good() -> None:
    found = refusals(NodeUnschedulable(), info(), cluster([node("a", unschedulable=True), node("b")]))
    assert list(found) == ["a"]
    assert found["a"].code is Code.UNRESOLVABLE
    assert found["a"].message == "node(s) were unschedulable"


def test_a_pod_that_tolerates_the_cordon_goes_there() -> None:
    view = cluster([CORDONED])
    for tolerated in ("node.kubernetes.io/unschedulable:NoSchedule", "node.kubernetes.io/unschedulable", ""):
        assert not refusals(NodeUnschedulable(), info(tolerations=[tolerated]), view)
    assert refusals(NodeUnschedulable(), info(tolerations=["node.kubernetes.io/unschedulable:NoExecute"]), view)


def test_a_node_wakes_pods_when_it_becomes_schedulable() -> None:
    hint = NodeUnschedulable().events()[0].hint
    assert hint(info(), CORDONED, OPEN) is Hint.QUEUE
    assert hint(info(), None, OPEN) is Hint.QUEUE
    assert hint(info(), None, CORDONED) is Hint.SKIP
    assert hint(info(), OPEN, OPEN) is Hint.SKIP
    assert hint(info(), OPEN, CORDONED) is Hint.SKIP


def test_a_toleration_wakes_only_the_pod_that_got_it_and_only_if_it_covers_the_cordon() -> None:
    hint = NodeUnschedulable().events()[1].hint
    pod = info("a")
    tolerant = info("a", tolerations=["node.kubernetes.io/unschedulable"])
    assert hint(pod, pod, tolerant) is Hint.QUEUE
    assert hint(pod, pod, info("a", tolerations=["other"])) is Hint.SKIP
    assert hint(info("b"), pod, tolerant) is Hint.SKIP
