"""Filter extenders beside the sampled search, which is kube-scheduler's default where one is configured."""

from __future__ import annotations

from typing import Any

from scheduler.messages.commands import CallExtender
from tests.engine.driver import Cluster

EXTENDER = {"urlPrefix": "http://e.test", "nodeCacheCapable": True}


def test_where_an_extender_leaves_none_of_a_sample_nothing_is_said_of_nodes_that_the_search_did_not_reach() -> None:
    cluster = Cluster(configuration={"extenders": [EXTENDER | {"filterVerb": "filter"}]})
    for number in range(160):
        cluster.node(f"n{number:03}", cpu="1" if number % 4 else "100m")
    cluster.pod("a", cpu="1")
    cluster.schedule()
    call = cluster.write(CallExtender)
    cluster.answer(call, {"FailedNodes": {f"n{number:03}": "no gpu" for number in range(160)}})
    assert cluster.attempt("a").message.startswith("0/160 nodes are available: 100 no gpu, 34 Insufficient cpu.")


def test_pre_score_is_asked_beside_an_extender_though_no_plugin_scores() -> None:
    profile = {"plugins": {"score": {"disabled": [{"name": "*"}]}}}
    cluster = Cluster(configuration={"profiles": [profile], "extenders": [EXTENDER | {"bindVerb": "bind"}]})
    cluster.nodes_like(2)
    cluster.pod("a", spec={"affinity": {"nodeAffinity": preferring("Gt", "-1")}})
    cluster.schedule()
    assert cluster.attempt("a").message.startswith('running PreScore plugin "NodeAffinity": ')


def preferring(operator: str, value: str) -> dict[str, Any]:
    expression = {"key": "number", "operator": operator, "values": [value]}
    term = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
