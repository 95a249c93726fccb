"""Writes that an API server refuses with a 429 or a 5xx, and says when they may come again."""

from __future__ import annotations

import pytest

from scheduler.controller.write.client import ApiClient
from scheduler.messages.claim_commands import CreateClaim, DeallocateClaim
from scheduler.messages.commands import BindPod, DeletePod, EvictPod, UpdateObject
from scheduler.messages.references import ClaimReference
from scheduler.objects.kinds import Kind
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json
from tests.controller.conftest import PODS, create, read
from tests.controller.write.test_reservation import ALLOCATION, CLAIMS, made, reserved, reserving
from tests.controller.write.writing import new_pod, writing

BINDING = "/pods/a/binding"


@pytest.mark.parametrize(("times", "retry_after"), [(1, 0), (11, 0.02)])
async def test_a_bind_that_is_refused_for_good_or_too_often_has_failed(
    cluster: EmbeddedCluster, client: ApiClient, times: int, retry_after: float
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


@pytest.mark.parametrize(
    ("code", "times", "seconds"), [(429, 1, 1.0), (503, 1, 0.02), (500, 10, 0.02), (429, 10, 0.02)]
)
async def test_a_bind_that_a_server_in_trouble_puts_off_is_sent_again_as_often_as_by_kube_scheduler(
    cluster: EmbeddedCluster, client: ApiClient, code: int, times: int, seconds: float
) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("POST", BINDING, code, times=times, retry_after=seconds)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        assert await writer.settle(5)
    assert [(outcome.ticket, outcome.is_done) for outcome in outcomes] == [(1, True)]
    assert (await read(client, f"{PODS}/a"))["spec"]["nodeName"] == "n1"


async def test_a_bind_that_may_still_be_carried_out_has_an_unknown_outcome_also_with_a_retry_after(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    """Its room stays taken until the engine has sent it again and knows."""
    pod = await new_pod(client)
    cluster.faults.fail("POST", BINDING, 504, reason="Timeout", retry_after=0.02)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        assert await writer.settle(5)
    assert [(one.is_done, one.status, one.is_unknown) for one in outcomes] == [(False, 504, True)]


@pytest.mark.parametrize("code", [500, 503, 504])
@pytest.mark.parametrize("is_eviction", [False, True])
async def test_a_victim_s_removal_is_sent_again_after_any_server_error_with_a_retry_after(
    cluster: EmbeddedCluster, client: ApiClient, code: int, is_eviction: bool
) -> None:
    pod = await new_pod(client, node="n1")
    method, path = ("POST", "/pods/a/eviction") if is_eviction else ("DELETE", "/pods/a")
    cluster.faults.fail(method, path, code, times=10, retry_after=0.02)
    async with writing(client) as (writer, outcomes):
        writer.submit(EvictPod(1, pod) if is_eviction else DeletePod(1, pod))
        assert await writer.settle(5)
    assert [(outcome.ticket, outcome.is_done) for outcome in outcomes] == [(1, True)]


@pytest.mark.parametrize("part", ["", "/status"])
async def test_a_reservation_goes_on_where_an_overloaded_server_put_it_off(
    cluster: EmbeddedCluster, client: ApiClient, part: str
) -> None:
    known = await made(client)
    cluster.faults.fail("PATCH", f"/resourceclaims/c{part}", 429, reason="TooManyRequests", retry_after=1)
    sent: list[str] = []
    client.observe = lambda method, *_: sent.append(method)
    outcome = await reserved(client, reserving(known))
    assert (outcome.ticket, outcome.is_done, sent) == (1, True, ["PATCH", "PATCH", "PATCH"])
    assert (await read(client, f"{CLAIMS}/c"))["status"]["reservedFor"][0]["uid"] == "uid-of-p"


async def test_a_deallocation_is_sent_again_too(cluster: EmbeddedCluster, client: ApiClient) -> None:
    written = (await reserved(client, reserving(await made(client)))).written
    assert written is not None
    cluster.faults.fail("PATCH", "/resourceclaims/c/status", 429, reason="TooManyRequests", retry_after=1)
    reference = ClaimReference(written.namespace, written.name, written.uid)
    async with writing(client) as (writer, outcomes):
        writer.submit(DeallocateClaim(1, reference, written.resource_version))
        assert await writer.settle(5)
    assert [(outcome.ticket, outcome.is_done) for outcome in outcomes] == [(1, True)]
    assert "allocation" not in (await read(client, f"{CLAIMS}/c")).get("status", {})


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/resourceclaims"), ("PATCH", "/status"), ("PATCH", "/pods/a/status")]
)
async def test_of_a_claim_for_extended_resources_one_is_made_however_often_its_requests_are_put_off(
    cluster: EmbeddedCluster, client: ApiClient, method: str, path: str
) -> None:
    pod = await new_pod(client)
    cluster.faults.fail(method, path, 429, times=2, reason="TooManyRequests", retry_after=1)
    async with writing(client) as (writer, outcomes):
        writer.submit(CreateClaim(1, ClaimReference("default", "", ""), pod, ALLOCATION, (), ()))
        assert await writer.settle(8)
        assert writer.counts.claim_creations == {"success": 1, "failure": 0}
    assert [(outcome.ticket, outcome.is_done) for outcome in outcomes] == [(1, True)]
    (claim,) = (await read(client, CLAIMS))["items"]
    status = (await read(client, f"{PODS}/a"))["status"]
    assert status["extendedResourceClaimStatus"]["resourceClaimName"] == claim["metadata"]["name"]
