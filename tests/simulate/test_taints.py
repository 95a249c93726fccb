"""Eviction by NoExecute taints, which reach the cluster over HTTP as kubectl sets them."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from scheduler.objects.kinds import decode_as
from scheduler.objects.node import Taint
from scheduler.objects.pod import Pod
from scheduler.simulate.apiserver.kinds import CORE_EVENTS, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.controllers.taints import FOR_EVER, seconds_left
from tests.simulate.playing import add_node, add_pod, until

Json = dict[str, Any]
TAINT = {"key": "broken", "value": "yes", "effect": "NoExecute"}
EVER = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}


async def _taint(cluster: EmbeddedCluster, *taints: Json, node: str = "n") -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    async with (
        aiohttp.ClientSession(cluster.url) as client,
        client.patch(f"/api/v1/nodes/{node}", json={"spec": {"taints": list(taints)}}, headers=headers) as response,
    ):
        assert response.status == 200


def _names(cluster: EmbeddedCluster) -> set[str]:
    return {one["metadata"]["name"] for one in cluster.store.list(PODS)}


async def test_pods_that_do_not_tolerate_a_taint_go_with_condition_and_event_and_the_others_stay() -> None:
    async with EmbeddedCluster(kubelet=None) as cluster:
        add_node(cluster.registry, "n")
        add_pod(cluster.registry, "fragile", node="n", spec={"terminationGracePeriodSeconds": 30})
        add_pod(cluster.registry, "hardy", node="n", tolerations=[EVER])
        await _taint(cluster, TAINT)
        await until(cluster.registry, lambda: bool(cluster.store.list(CORE_EVENTS)))
        fragile, hardy = (cluster.store.get(PODS, "default", name) for name in ("fragile", "hardy"))
        assert fragile is not None and hardy is not None
        assert "deletionTimestamp" in fragile["metadata"] and "deletionTimestamp" not in hardy["metadata"]
        conditions = {one["type"]: one["reason"] for one in fragile["status"]["conditions"] if "reason" in one}
        assert conditions["DisruptionTarget"] == "DeletionByTaintManager"
        (event,) = cluster.store.list(CORE_EVENTS)
        assert event["reason"] == "TaintManagerEviction"
        assert event["message"] == "Marking for deletion Pod default/fragile"


async def test_a_toleration_with_seconds_lets_a_pod_stay_for_these_seconds() -> None:
    async with EmbeddedCluster() as cluster:
        add_node(cluster.registry, "n")
        add_pod(cluster.registry, "brief", node="n", tolerations=[{**EVER, "tolerationSeconds": 1}])
        add_pod(cluster.registry, "fragile", node="n")
        await _taint(cluster, TAINT)
        await until(cluster.registry, lambda: "fragile" not in _names(cluster))
        assert "brief" in _names(cluster)
        await until(cluster.registry, lambda: "brief" not in _names(cluster))


async def test_a_taint_that_is_removed_in_time_spares_the_pod() -> None:
    async with EmbeddedCluster() as cluster:
        add_node(cluster.registry, "n")
        add_pod(cluster.registry, "spared", node="n", tolerations=[{**EVER, "tolerationSeconds": 1}])
        await _taint(cluster, TAINT)
        await _taint(cluster)
        # Another time of the same length, begun later, ends after the one that was cancelled.
        add_node(cluster.registry, "other")
        add_pod(cluster.registry, "clock", node="other", tolerations=[{**EVER, "tolerationSeconds": 1}])
        await _taint(cluster, TAINT, node="other")
        await until(cluster.registry, lambda: "clock" not in _names(cluster))
        assert "spared" in _names(cluster)


async def test_a_pod_bound_to_a_tainted_node_goes_at_once() -> None:
    async with EmbeddedCluster() as cluster:
        add_node(cluster.registry, "n")
        await _taint(cluster, TAINT)
        add_pod(cluster.registry, "late", node="n")
        await until(cluster.registry, lambda: "late" not in _names(cluster))


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0.0),
        ([EVER], FOR_EVER),
        ([{**EVER, "tolerationSeconds": 5}], 5.0),
        ([{**EVER, "tolerationSeconds": -1}], 0.0),
        ([{**EVER, "value": "no", "operator": "Equal"}], 0.0),
        ([{**EVER, "tolerationSeconds": 7}, {**EVER, "tolerationSeconds": 5}], 7.0),
    ],
    ids=["none", "for ever", "seconds", "negative", "another value", "the first that matches"],
)
def test_the_first_matching_toleration_gives_the_time(tolerations: list[Json], expected: float) -> None:
    pod = decode_as(Pod, json.dumps({"metadata": {"name": "p"}, "spec": {"tolerations": tolerations}}).encode())
    assert seconds_left(pod, [Taint(key="broken", value="yes", effect="NoExecute")]) == expected
