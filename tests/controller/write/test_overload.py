"""Writes to an API server that has too much to do."""

from __future__ import annotations

from scheduler.controller.write.client import ApiClient
from scheduler.messages.commands import BindPod, DeletePod, UpdateObject
from scheduler.objects.kinds import Kind
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json
from tests.controller.conftest import create, until
from tests.controller.write.writing import new_pod, new_pod_of_name, writing

BINDING = "/pods/a/binding"


async def test_a_write_waits_for_as_long_as_an_overloaded_server_asks(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod, victim = await new_pod(client), await new_pod_of_name(client, "victim")
    created = await create(client, "/api/v1/nodes", node_json("apart"))
    changes = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"], "annotations": {"x": "y"}}}
    for method, path in (("POST", BINDING), ("DELETE", "/pods/victim"), ("PATCH", "/nodes/apart")):
        cluster.faults.fail(method, path, 429, reason="TooManyRequests", retry_after=1)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        writer.submit(DeletePod(2, victim))
        writer.submit(UpdateObject(3, Kind.NODE, "apart", changes))
        await until(lambda: not any(rule.times for rule in cluster.faults.rules))
        assert outcomes == []
        assert await writer.settle(5)
    assert sorted((outcome.ticket, outcome.is_done) for outcome in outcomes) == [(1, True), (2, True), (3, True)]


async def test_a_bind_that_an_overloaded_server_never_takes_is_refused(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("POST", BINDING, 429, reason="TooManyRequests")
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        assert await writer.settle(5)
    assert [(outcome.is_done, outcome.status, outcome.is_unknown) for outcome in outcomes] == [(False, 429, False)]
