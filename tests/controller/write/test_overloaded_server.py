"""Writes that an overloaded API server refuses with a 429 and says when they may come again."""

from __future__ import annotations

import pytest

from scheduler.controller.write.client import ApiClient
from scheduler.messages.commands import BindPod, DeletePod, UpdateObject
from scheduler.objects.kinds import Kind
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json
from tests.controller.conftest import PODS, create, read
from tests.controller.write.writing import new_pod, writing

BINDING = "/pods/a/binding"


async def test_a_bind_that_an_overloaded_server_puts_off_is_sent_again_and_binds(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("POST", BINDING, 429, reason="TooManyRequests", retry_after=1)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        assert await writer.settle(5)
    assert [(outcome.ticket, outcome.is_done) for outcome in outcomes] == [(1, True)]
    assert (await read(client, f"{PODS}/a"))["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(("times", "retry_after"), [(1, 0), (4, 1)])
async def test_a_bind_that_is_refused_for_good_or_too_often_has_failed(
    cluster: EmbeddedCluster, client: ApiClient, times: int, retry_after: int
) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("POST", BINDING, 429, times=times, reason="TooManyRequests", retry_after=retry_after)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        assert await writer.settle(8)
    assert [(one.is_done, one.status, one.is_unknown) for one in outcomes] == [(False, 429, False)]
    assert "nodeName" not in (await read(client, f"{PODS}/a"))["spec"]


async def test_a_victim_s_deletion_and_an_update_are_sent_again_too(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client, node="n1")
    created = await create(client, "/api/v1/nodes", node_json("spare"))
    changes = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"], "annotations": {"x": "y"}}}
    for method, path in (("DELETE", "/pods/a"), ("PATCH", "/nodes/spare")):
        cluster.faults.fail(method, path, 429, reason="TooManyRequests", retry_after=1)
    async with writing(client) as (writer, outcomes):
        writer.submit(DeletePod(1, pod))
        writer.submit(UpdateObject(2, Kind.NODE, "spare", changes))
        assert await writer.settle(5)
    assert sorted((outcome.ticket, outcome.is_done) for outcome in outcomes) == [(1, True), (2, True)]
