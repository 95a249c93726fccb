"""What kubectl asks of a server besides objects: reviews, schemas, logs, the Leases of nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from scheduler.simulate.apiserver.kinds import LEASES, NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.kubelet import KubeletSettings
from tests.simulate.playing import add_node, add_pod, until

PATH = "/api/v1/namespaces/default/pods"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(kubelet=KubeletSettings(renews_leases=True)) as running:
        add_node(running.registry, "n")
        add_pod(running.registry, "waiting")
        add_pod(running.registry, "running", node="n")
        yield running


@pytest.fixture
async def client(cluster: EmbeddedCluster) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cluster.url) as session:
        yield session


def _delimited(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def _envelope(raw: bytes) -> bytes:
    type_meta = _delimited(1, b"authorization.k8s.io/v1") + _delimited(2, b"SelfSubjectAccessReview")
    return b"k8s\x00" + _delimited(1, type_meta) + _delimited(2, raw) + _delimited(3, b"")


async def test_a_review_in_protobuf_is_read_and_answered_in_json(client: aiohttp.ClientSession) -> None:
    resource = _delimited(1, b"default") + _delimited(2, b"create") + _delimited(5, b"pods")
    body = _envelope(_delimited(1, b"") + _delimited(2, _delimited(1, resource)) + _delimited(3, b"\x08\x00"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    async with client.post(path, data=body, headers={"Content-Type": PROTOBUF}) as response:
        review = await response.json()
    assert (response.status, review["status"]) == (201, {"allowed": True})
    asked = {"namespace": "default", "verb": "create", "resource": "pods"}
    assert review["spec"] == {"resourceAttributes": asked}


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"k8s\x00\x12\x7f", b"k8s\x00\x0f", b"k8s\x00\x80", _envelope(b"\x12\x05\x0a")]
)
async def test_a_review_that_is_cut_off_is_a_bad_request(client: aiohttp.ClientSession, body: bytes) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    async with client.post(path, data=body, headers={"Content-Type": PROTOBUF}) as response:
        assert response.status == 400


async def test_every_reference_of_the_schemas_has_its_target_and_every_stored_kind_a_schema(
    client: aiohttp.ClientSession,
) -> None:
    async with client.get("/openapi/v3") as response:
        index = (await response.json())["paths"]
    for entry in index.values():
        async with client.get(entry["serverRelativeURL"]) as response:
            document = await response.json()
        schemas = document["components"]["schemas"]
        assert {one.rpartition("/")[2] for one in _references(document)} <= schemas.keys()
        explained = [one["x-kubernetes-group-version-kind"][0]["kind"] for one in schemas.values()
                     if "x-kubernetes-group-version-kind" in one]  # fmt: skip
        looked_up = [one["get"]["x-kubernetes-group-version-kind"]["kind"] for one in document["paths"].values()]
        assert sorted(explained) == sorted(looked_up)


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(one) for one in value.values()))
    return set().union(*(_references(one) for one in value)) if isinstance(value, list) else set()


async def test_a_schema_has_the_fields_that_the_scheduler_reads(client: aiohttp.ClientSession) -> None:
    async with client.get("/openapi/v3/api/v1") as response:
        schemas = (await response.json())["components"]["schemas"]
    assert "embedded API server" in schemas["Pod"]["description"]
    assert schemas["PodSpec"]["properties"]["tolerations"] == {
        "type": "array", "items": {"$ref": "#/components/schemas/Toleration"},
    }  # fmt: skip
    assert schemas["Toleration"]["properties"]["tolerationSeconds"] == {"type": "integer"}


async def test_logs_say_what_this_cluster_is(cluster: EmbeddedCluster, client: aiohttp.ClientSession) -> None:
    async with client.get(f"{PATH}/waiting/log") as response:
        assert response.status == 400 and "does not have a host assigned" in await response.text()

    def is_running() -> bool:
        return bool(cluster.registry.stored(PODS, "default", "running").object["status"].get("containerStatuses"))

    await until(cluster.registry, is_running)
    async with client.get(f"{PATH}/running/log?container=main") as response:
        text = await response.text()
    assert text.count("\n") == 1 and "runs no containers" in text and "default/running" in text
    for path, code in ((f"{PATH}/none/log", 404), (f"{PATH}/running/log?container=x", 400)):
        async with client.get(path) as response:
            assert response.status == code
    async with client.post(f"{PATH}/running/exec?command=ls") as response:
        assert response.status == 501 and "runs no containers" in await response.text()


async def test_a_node_has_a_lease_as_long_as_it_exists(cluster: EmbeddedCluster) -> None:
    def leases() -> set[str]:
        return {one["metadata"]["name"] for one in cluster.store.list(LEASES, "kube-node-lease")}

    await until(cluster.registry, lambda: leases() == {"n"})
    add_node(cluster.registry, "later")
    await until(cluster.registry, lambda: leases() == {"n", "later"})
    cluster.registry.delete(NODES, "", "n")
    await until(cluster.registry, lambda: leases() == {"later"})
