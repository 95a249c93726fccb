from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.simulate.apiserver import DeleteOptions, Failure
from scheduler.simulate.apiserver.kinds import (
    BUDGETS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Kind,
)
from scheduler.simulate.apiserver.patches import MERGE_PATCH
from scheduler.simulate.apiserver.pods import evict
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.kubelet import KubeletSettings
from tests.simulate.playing import add_node, until, workload


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(kubelet=KubeletSettings(stop_seconds=0, job_seconds=0)) as running:
        add_node(running.registry, "n", cpu="100")
        yield running


def _running(cluster: EmbeddedCluster) -> list[str]:
    return [one["metadata"]["name"] for one in cluster.store.list(PODS) if one["status"].get("phase") == "Running"]


def _status(cluster: EmbeddedCluster, kind: Kind, name: str) -> dict[str, Any]:
    found = cluster.store.get(kind, "default", name)
    return {} if found is None else dict(found.get("status") or {})


async def test_a_deployment_rolls_to_a_new_template_and_scales(cluster: EmbeddedCluster) -> None:
    registry = cluster.registry
    registry.create(DEPLOYMENTS, "default", workload("d", 3))
    await until(registry, lambda: _status(cluster, DEPLOYMENTS, "d").get("readyReplicas") == 3)
    patch = {"spec": {"replicas": 2, "template": {"metadata": {"annotations": {"v": "2"}}}}}
    registry.patch(DEPLOYMENTS, "default", "d", MERGE_PATCH, patch)

    def rolled() -> bool:
        pods = cluster.store.list(PODS)
        return len(pods) == 2 and all(one["metadata"].get("annotations") == {"v": "2"} for one in pods)

    await until(registry, rolled)
    assert sorted(one["spec"]["replicas"] for one in cluster.store.list(REPLICA_SETS)) == [0, 2]


async def test_a_replica_set_replaces_a_pod_that_was_deleted(cluster: EmbeddedCluster) -> None:
    registry = cluster.registry
    registry.create(REPLICA_SETS, "default", workload("r", 2))
    await until(registry, lambda: len(_running(cluster)) == 2)
    lost = _running(cluster)[0]
    registry.delete(PODS, "default", lost)
    await until(registry, lambda: len(_running(cluster)) == 2 and lost not in _running(cluster))


async def test_a_stateful_set_starts_its_pods_in_order_with_their_claims(cluster: EmbeddedCluster) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.registry.create(STATEFUL_SETS, "default", workload("s", 2, volumeClaimTemplates=[claim]))
    await until(cluster.registry, lambda: _running(cluster) == ["s-0", "s-1"])
    first, second = cluster.store.list(PODS)
    assert int(first["metadata"]["resourceVersion"]) < int(second["metadata"]["resourceVersion"])
    assert [one["metadata"]["name"] for one in cluster.store.list(PERSISTENT_VOLUME_CLAIMS)] == ["data-s-0", "data-s-1"]
    assert second["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-s-1"


async def test_a_job_completes(cluster: EmbeddedCluster) -> None:
    template = workload("j")["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    job = {"metadata": {"name": "j"}, "spec": {"completions": 3, "parallelism": 2, "template": template}}
    cluster.registry.create(JOBS, "default", job)
    await until(cluster.registry, lambda: bool(_status(cluster, JOBS, "j").get("completionTime")))
    assert _status(cluster, JOBS, "j")["succeeded"] == 3


async def test_a_budget_counts_and_an_eviction_takes_from_it(cluster: EmbeddedCluster) -> None:
    registry = cluster.registry
    budget = {"metadata": {"name": "b"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "r"}}}}
    registry.create(BUDGETS, "default", budget)
    registry.create(REPLICA_SETS, "default", workload("r", 3))
    await until(registry, lambda: _status(cluster, BUDGETS, "b").get("disruptionsAllowed") == 1)
    status = _status(cluster, BUDGETS, "b")
    assert (status["expectedPods"], status["desiredHealthy"], status["currentHealthy"]) == (3, 2, 3)
    first, second, _ = _running(cluster)
    evict(registry, "default", first, {})
    with pytest.raises(Failure) as refused:
        evict(registry, "default", second, {})
    assert refused.value.code == 429
    await until(registry, lambda: _status(cluster, BUDGETS, "b").get("disruptionsAllowed") == 1)
    assert "disruptedPods" not in _status(cluster, BUDGETS, "b")


@pytest.mark.parametrize(("policy", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 2)])
async def test_dependents_follow_their_owner_as_the_policy_says(
    cluster: EmbeddedCluster, policy: str, left: int
) -> None:
    registry = cluster.registry
    registry.create(REPLICA_SETS, "default", workload("r", 2))
    await until(registry, lambda: len(_running(cluster)) == 2)
    registry.delete(REPLICA_SETS, "default", "r", DeleteOptions(propagation=policy))

    def settled() -> bool:
        pods = cluster.store.list(PODS)
        free = all("ownerReferences" not in one["metadata"] for one in pods)
        return not cluster.store.list(REPLICA_SETS) and len(pods) == left and free

    await until(registry, settled)


async def test_a_namespace_takes_its_contents_along(cluster: EmbeddedCluster) -> None:
    registry = cluster.registry
    registry.create(NAMESPACES, "", {"metadata": {"name": "x"}})
    registry.create(CONFIG_MAPS, "x", {"metadata": {"name": "c"}})
    registry.create(REPLICA_SETS, "x", workload("r", 2))
    await until(registry, lambda: len(_running(cluster)) == 2)
    registry.delete(NAMESPACES, "", "x")
    await until(registry, lambda: registry.store.get(NAMESPACES, "", "x") is None)
    assert not cluster.store.list(CONFIG_MAPS) and not cluster.store.list(PODS)


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
async def test_a_claim_is_provisioned_at_once_or_when_a_node_is_selected(cluster: EmbeddedCluster, mode: str) -> None:
    registry = cluster.registry
    body = {"metadata": {"name": "fast"}, "provisioner": "x.y", "volumeBindingMode": mode}
    registry.create(STORAGE_CLASSES, "", body)
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    registry.create(PERSISTENT_VOLUME_CLAIMS, "default", {"metadata": {"name": "c"}, "spec": spec})
    if mode == "WaitForFirstConsumer":
        patch = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}
        registry.patch(PERSISTENT_VOLUME_CLAIMS, "default", "c", MERGE_PATCH, patch)
    await until(registry, lambda: _status(cluster, PERSISTENT_VOLUME_CLAIMS, "c").get("phase") == "Bound")
    claim = registry.stored(PERSISTENT_VOLUME_CLAIMS, "default", "c").object
    volume = registry.stored(PERSISTENT_VOLUMES, "", claim["spec"]["volumeName"]).object
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert volume["status"]["phase"] == "Bound"
    assert "pv.kubernetes.io/bind-completed" in claim["metadata"]["annotations"]
