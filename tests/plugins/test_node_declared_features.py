from __future__ import annotations

from scheduler.framework.events import Hint
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.plugins.node_declared_features import (
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_ON_HOST_NETWORK,
    NodeDeclaredFeatures,
)
from scheduler.testing.fragments import container_json
from scheduler.testing.objects import node
from tests.plugins.clusters import cluster, info, refusals

RESTARTING = [container_json("c", restartPolicyRules=[{"action": "Restart"}, {"action": "RestartAllContainers"}])]
USER_NAMESPACE = {"hostNetwork": True, "hostUsers": False}


def test_a_needed_feature_must_be_declared() -> None:
    view = cluster(
        [
            node("both", features=[RESTART_ALL_CONTAINERS, USER_NAMESPACES_ON_HOST_NETWORK, "Unknown"]),
            node("one", features=[RESTART_ALL_CONTAINERS]),
            node("none"),
        ]
    )
    refusal = Refusal(Code.UNRESOLVABLE, ("node(s) didn't match Pod's required features",))
    assert refusals(NodeDeclaredFeatures(), info(containers=RESTARTING), view) == {"none": refusal}
    assert refusals(NodeDeclaredFeatures(), info(init_containers=RESTARTING), view) == {"none": refusal}
    both = info(containers=RESTARTING, spec=USER_NAMESPACE)
    assert refusals(NodeDeclaredFeatures(), both, view) == {"one": refusal, "none": refusal}


def test_a_pod_that_needs_no_feature_is_skipped() -> None:
    view = cluster([node("a")])
    for spec in ({}, {"hostNetwork": True}, {"hostNetwork": True, "hostUsers": True}, {"hostUsers": False}):
        assert NodeDeclaredFeatures().pre_filter(info(spec=spec), view) is SKIP


def test_a_node_wakes_pods_when_its_features_change() -> None:
    hint = NodeDeclaredFeatures().events()[0].hint
    assert hint(info(), None, node("a")) is Hint.QUEUE
    assert hint(info(), node("a"), node("a", features=["X"])) is Hint.QUEUE
    assert hint(info(), node("a", features=["X"]), node("a", features=["X"])) is Hint.SKIP


def test_a_pod_wakes_when_it_needs_other_features() -> None:
    hint = NodeDeclaredFeatures().events()[1].hint
    needy, modest = info("a", spec=USER_NAMESPACE), info("a")
    assert hint(needy, needy, modest) is Hint.QUEUE
    assert hint(needy, needy, needy) is Hint.SKIP
    assert hint(info("b"), needy, modest) is Hint.SKIP
