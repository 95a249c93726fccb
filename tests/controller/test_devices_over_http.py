"""Devices over real HTTP: claims are allocated and reserved before the bind, and no device is given twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.run import Shell
from scheduler.controller.write.client import MERGE_PATCH, ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.engine.engine import Engine
from scheduler.objects.kinds import Kind
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import CONFIGURATION, quiet_settings, running
from tests.device_documents import claim, device_class, gpu, resource_slice

RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"


@asynccontextmanager
async def scheduling(connection: ConnectionSettings) -> AsyncIterator[tuple[Engine, Shell]]:
    engine = build_engine(load(CONFIGURATION), started=read_clock(), seed=1)
    settings = quiet_settings(connection)
    async with running(Shell(settings, Parts(engine), {})) as shell:
        await until(lambda: engine.is_synced)
        yield engine, shell


async def cluster_with_gpus(client: ApiClient, count: int) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    await create(client, f"{RESOURCES}/deviceclasses", device_class("gpus", 'device.driver == "gpu.example.com"'))
    await create(client, f"{RESOURCES}/resourceslices", resource_slice("n1", *[gpu(f"gpu-{k}") for k in range(count)]))


def claiming(name: str, claim_name: str) -> dict[str, Any]:
    return pod_json(name, spec={"resourceClaims": [{"name": "devices", "resourceClaimName": claim_name}]})


async def node_of(client: ApiClient, name: str) -> str:
    return str((await read(client, f"{PODS}/{name}"))["spec"].get("nodeName", ""))


async def bound(client: ApiClient, *names: str) -> None:
    async with asyncio.timeout(20):
        while not all([await node_of(client, name) for name in names]):  # noqa: ASYNC110 - the server is asked
            await asyncio.sleep(0.02)


async def test_a_claim_is_allocated_and_reserved_before_its_pod_is_bound(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    await cluster_with_gpus(client, 2)
    await create(client, CLAIMS, claim("wanted", "gpus"))
    async with scheduling(connection) as (engine, _):
        made = await create(client, PODS, claiming("p", "wanted"))
        await bound(client, "p")
        found = await read(client, f"{CLAIMS}/wanted")
        assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        (result,) = found["status"]["allocation"]["devices"]["results"]
        assert (result["pool"], result["device"]) == ("n1", "gpu-0")
        assert found["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": made["metadata"]["uid"]}]
        await until(lambda: not engine.bindings.under_way)
        engine.check()


async def test_of_two_pods_that_race_for_one_device_one_waits_until_it_is_free(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    await cluster_with_gpus(client, 1)
    for name in ("one", "two"):
        await create(client, CLAIMS, claim(name, "gpus"))
    async with scheduling(connection) as (engine, _):
        await create(client, PODS, claiming("p1", "one"))
        await create(client, PODS, claiming("p2", "two"))
        await until(lambda: engine.queue.find("default/p2") is not None or engine.queue.find("default/p1") is not None)
        await until(lambda: not engine.bindings.under_way and engine.attempt_of("default/p2") is not None)
        nodes = [await node_of(client, name) for name in ("p1", "p2")]
        assert sorted(nodes) == ["", "n1"]
        winner, loser = ("one", "p2") if nodes[0] else ("two", "p1")
        attempt = engine.attempt_of(f"default/{loser}")
        assert attempt is not None
        assert "1 cannot allocate all claims" in attempt.message
        engine.check()
        free = {"status": {"allocation": None, "reservedFor": None}}
        await client.request(
            "PATCH", f"{CLAIMS}/{winner}/status", body=msgspec.json.encode(free), content_type=MERGE_PATCH
        )
        await bound(client, loser)


async def test_an_extended_resource_is_given_by_devices_through_a_claim_that_the_scheduler_makes(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    await cluster_with_gpus(client, 2)
    asking = {"requests": {"deviceclass.resource.kubernetes.io/gpus": "2"}}
    async with scheduling(connection) as (engine, _):
        await create(client, PODS, pod_json("p", containers=[{"name": "c", "image": "i", "resources": asking}]))
        await bound(client, "p")
        status = (await read(client, f"{PODS}/p"))["status"]["extendedResourceClaimStatus"]
        assert status["requestMappings"] == [
            {
                "containerName": "c",
                "resourceName": "deviceclass.resource.kubernetes.io/gpus",
                "requestName": "container-0-request-0",
            }
        ]
        found = await read(client, f"{CLAIMS}/{status['resourceClaimName']}")
        assert [one["device"] for one in found["status"]["allocation"]["devices"]["results"]] == ["gpu-0", "gpu-1"]
        await until(lambda: not engine.bindings.under_way)
        engine.check()


async def test_a_claim_that_another_scheduler_allocated_meanwhile_is_used_as_it_is(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    await cluster_with_gpus(client, 2)
    await create(client, CLAIMS, claim("wanted", "gpus"))
    async with scheduling(connection) as (engine, _):
        elsewhere = {
            "status": {
                "allocation": {
                    "devices": {
                        "results": [{"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-1"}]
                    }
                }
            }
        }
        await client.request(
            "PATCH", f"{CLAIMS}/wanted/status", body=msgspec.json.encode(elsewhere), content_type=MERGE_PATCH
        )
        await create(client, PODS, claiming("p", "wanted"))
        await bound(client, "p")
        found = await read(client, f"{CLAIMS}/wanted")
        assert [one["device"] for one in found["status"]["allocation"]["devices"]["results"]] == ["gpu-1"]
        await until(lambda: not engine.bindings.under_way)
        engine.check()


async def test_a_pod_whose_device_is_being_prepared_says_so_and_is_bound_when_it_is_ready(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    await cluster_with_gpus(client, 0)
    slow = gpu("gpu-0", bindingConditions=["attached"], bindingFailureConditions=["broken"])
    await create(client, f"{RESOURCES}/resourceslices", resource_slice("n1", slow, pool="slow", name="slow"))
    await create(client, CLAIMS, claim("wanted", "gpus"))
    async with scheduling(connection) as (engine, shell):
        await create(client, PODS, claiming("p", "wanted"))
        async with asyncio.timeout(20):
            while not (found := await events(client, "BindingConditionsPending")):  # noqa: ASYNC110 - the server is asked
                await asyncio.sleep(0.02)
        assert [one["note"] for one in found] == ["waiting for binding conditions for device on node n1"]
        assert found[0]["action"] == "Scheduling"
        assert await node_of(client, "p") == ""
        device = {"driver": "gpu.example.com", "pool": "slow", "device": "gpu-0"}
        attached = {"type": "attached", "status": "True", "reason": "Done", "message": ""}
        ready = {"status": {"devices": [{**device, "conditions": [attached]}]}}
        await client.request(
            "PATCH", f"{CLAIMS}/wanted/status", body=msgspec.json.encode(ready), content_type=MERGE_PATCH
        )
        await bound(client, "p")
        await until(lambda: not engine.bindings.under_way)
        assert len(await events(client, "BindingConditionsPending")) == 1
        labels = {"profile": "tandem-scheduler", "driver": "gpu.example.com", "status": "success"}
        read_value = shell.metrics.registry.get_sample_value
        assert read_value("scheduler_dra_bindingconditions_allocations_total", labels) == 1
        assert read_value("scheduler_dra_bindingconditions_wait_duration_seconds_count", labels) == 1


async def test_claims_made_for_extended_resources_are_counted(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    await cluster_with_gpus(client, 1)
    asking = {"requests": {"deviceclass.resource.kubernetes.io/gpus": "1"}}
    async with scheduling(connection) as (_, shell):
        await create(client, PODS, pod_json("p", containers=[{"name": "c", "image": "i", "resources": asking}]))
        await bound(client, "p")
        read_value = shell.metrics.registry.get_sample_value
        assert read_value("scheduler_resourceclaim_creates_total", {"status": "success"}) == 1
        assert read_value("scheduler_resourceclaim_creates_total", {"status": "failure"}) == 0


async def events(client: ApiClient, reason: str) -> list[dict[str, Any]]:
    listed = await read(client, "/apis/events.k8s.io/v1/namespaces/default/events")
    return [one for one in listed["items"] if one["reason"] == reason]


async def test_a_claim_left_over_for_extended_resources_is_replaced_and_its_pod_bound(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    """As by a scheduler that was killed between the claim and the binding."""
    await create(client, "/api/v1/nodes", node_json("n1"))
    gpus = device_class("gpus", 'device.driver == "gpu.example.com"', extendedResourceName="example.com/gpu")
    await create(client, f"{RESOURCES}/deviceclasses", gpus)
    await create(client, f"{RESOURCES}/resourceslices", resource_slice("n1", gpu("gpu-0")))
    asking = pod_json("p")
    asking["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {})["example.com/gpu"] = "1"
    pod = (await create(client, PODS, asking))["metadata"]
    left = claim("left-over", "gpus")
    del left["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["uid"], "controller": True}
    left["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    }
    await create(client, CLAIMS, left)
    async with scheduling(connection):
        await bound(client, "p")
        (made,) = (await read(client, CLAIMS))["items"]
    assert made["metadata"]["name"] != "left-over"
    assert made["status"]["reservedFor"][0]["uid"] == pod["uid"]
    status = (await read(client, f"{PODS}/p"))["status"]
    assert status["extendedResourceClaimStatus"]["resourceClaimName"] == made["metadata"]["name"]


async def test_a_claim_that_was_made_and_deleted_while_claims_were_not_watched_gives_its_device_back(
    connection: ConnectionSettings, client: ApiClient, cluster: EmbeddedCluster
) -> None:
    gpus = device_class("gpus", 'device.driver == "gpu.example.com"', extendedResourceName="example.com/gpu")
    await create(client, "/api/v1/nodes", node_json("n1"))
    await create(client, f"{RESOURCES}/deviceclasses", gpus)
    await create(client, f"{RESOURCES}/resourceslices", resource_slice("n1", gpu("gpu-0")))
    async with scheduling(connection) as (engine, _):
        cluster.faults.fail("GET", "/resourceclaims.*watch=true", 503, times=1_000_000)
        cluster.server.close_watches()
        await create(client, PODS, pod_json("first", requests={"example.com/gpu": "1"}))
        await bound(client, "first")
        (made,) = (await read(client, CLAIMS))["items"]
        name = made["metadata"]["name"]
        await client.request("DELETE", f"{PODS}/first", body=b'{"gracePeriodSeconds": 0}')
        freed = msgspec.json.encode({"metadata": {"finalizers": None}})
        await client.request("PATCH", f"{CLAIMS}/{name}", body=freed, content_type=MERGE_PATCH)
        await client.request("DELETE", f"{CLAIMS}/{name}")
        assert (await read(client, CLAIMS))["items"] == []
        cluster.server.compact()
        cluster.faults.clear()
        await until(lambda: not engine.cache.objects.all(Kind.RESOURCE_CLAIM))
        await create(client, PODS, pod_json("second", requests={"example.com/gpu": "1"}))
        await bound(client, "second")
        engine.check()
