"""The embedded cluster makes claims from templates and frees the devices of pods that are over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.simulate.apiserver import DeleteOptions
from scheduler.simulate.apiserver.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from scheduler.simulate.apiserver.patches import MERGE_PATCH
from scheduler.simulate.cluster import EmbeddedCluster
from tests.device_documents import exactly
from tests.simulate.playing import until

SPEC = {"devices": {"requests": [{"name": "r", "exactly": exactly("gpus")}]}}
POD = {
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
    },
}


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(kubelet=None) as running:
        yield running


def claims(cluster: EmbeddedCluster) -> list[dict[str, Any]]:
    return list(cluster.store.list(RESOURCE_CLAIMS))


async def test_a_claim_is_made_from_a_template_even_if_that_comes_later(cluster: EmbeddedCluster) -> None:
    registry = cluster.registry
    registry.create(PODS, "default", POD)
    registry.create(RESOURCE_CLAIM_TEMPLATES, "default", {"metadata": {"name": "gpus"}, "spec": {"spec": SPEC}})
    await until(registry, lambda: bool(claims(cluster)))
    (made,) = claims(cluster)
    pod = cluster.store.get(PODS, "default", "p")
    assert pod is not None
    assert made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpus"
    assert made["metadata"]["name"].startswith("p-gpu-")
    await until(registry, lambda: _named(cluster) == [made["metadata"]["name"]])


async def test_the_claim_goes_with_its_pod_devices_and_all(cluster: EmbeddedCluster) -> None:
    registry = cluster.registry
    registry.create(RESOURCE_CLAIM_TEMPLATES, "default", {"metadata": {"name": "gpus"}, "spec": {"spec": SPEC}})
    pod = registry.create(PODS, "default", POD)
    await until(registry, lambda: bool(claims(cluster)))
    (made,) = claims(cluster)
    held = {
        "metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]},
        "status": {
            "allocation": {"devices": {"results": []}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": pod.object["metadata"]["uid"]}],
        },
    }
    name = made["metadata"]["name"]
    registry.patch(RESOURCE_CLAIMS, "default", name, MERGE_PATCH, {"metadata": held["metadata"]})
    registry.patch(RESOURCE_CLAIMS, "default", name, MERGE_PATCH, {"status": held["status"]}, "status")
    registry.delete(PODS, "default", "p", DeleteOptions(grace_seconds=0))
    await until(registry, lambda: not claims(cluster))


def _named(cluster: EmbeddedCluster) -> list[str]:
    pod = cluster.store.get(PODS, "default", "p")
    assert pod is not None
    return [one["resourceClaimName"] for one in pod["status"].get("resourceClaimStatuses") or ()]
