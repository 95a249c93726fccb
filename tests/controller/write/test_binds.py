"""Binds against the embedded API server: what is made of each answer, and of none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from scheduler.controller.write.client import ApiClient, Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.messages.claim_commands import ReserveClaim
from scheduler.messages.commands import BindPod
from scheduler.messages.references import ClaimReference, PodReference
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.kinds import decode_as
from scheduler.objects.resource_claims import Allocation, ClaimConsumer, ResourceClaim
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.conftest import PODS, read
from tests.controller.write.scripted_server import client_of, served
from tests.controller.write.test_credentials import kubeconfig
from tests.controller.write.writing import new_pod, writing
from tests.device_documents import claim

BINDING = "/pods/a/binding"


async def test_a_bind_puts_the_pod_on_its_node(client: ApiClient) -> None:
    pod = await new_pod(client)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(7, pod, "n1"))
        assert await writer.settle(5)
    assert outcomes == [WriteFinished(7, True, 201)]
    assert (await read(client, f"{PODS}/a"))["spec"]["nodeName"] == "n1"


async def test_what_became_of_a_bind_whose_answer_is_lost_is_unknown_and_a_second_one_tells(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    cluster.faults.drop("POST", BINDING, after=True)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        assert await writer.settle(5)
        assert [(outcome.is_done, outcome.is_unknown) for outcome in outcomes] == [(False, True)]
        writer.submit(BindPod(2, pod, "n1"))
        assert await writer.settle(5)
    assert outcomes[1] == WriteFinished(2, True, 200)


async def test_a_bind_that_came_to_nothing_is_unknown_too_and_a_second_one_binds(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    cluster.faults.drop("POST", BINDING)
    async with writing(client) as (writer, outcomes):
        for ticket in (1, 2):
            writer.submit(BindPod(ticket, pod, "n1"))
            assert await writer.settle(5)
    assert [(outcome.is_done, outcome.is_unknown) for outcome in outcomes] == [(False, True), (True, False)]


async def test_a_bind_that_times_out_is_unknown_and_frees_its_place(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    cluster.faults.delay("POST", BINDING, 30.0)
    async with writing(client, bind_timeout_seconds=1.0) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        assert await writer.settle(5)
        assert writer.binds_under_way == 0
    assert [(o.is_done, o.status, o.reason, o.is_unknown) for o in outcomes] == [(False, 0, "Timeout", True)]


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [(504, "Timeout", ""), (502, "", "bad gateway"), (500, "InternalError", "etcdserver: request timed out")],
)
async def test_a_server_that_gave_up_waiting_for_its_store_may_have_bound_the_pod(
    cluster: EmbeddedCluster, client: ApiClient, status: int, reason: str, message: str
) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("POST", BINDING, status, reason=reason, message=message)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        assert await writer.settle(5)
    assert [(outcome.is_done, outcome.is_unknown) for outcome in outcomes] == [(False, True)]


async def test_a_conflict_that_can_not_be_looked_up_is_unknown(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod = await new_pod(client)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        assert await writer.settle(5)
        cluster.faults.fail("GET", f"{PODS}/a", 503)
        writer.submit(BindPod(2, pod, "n1"))
        assert await writer.settle(5)
    assert [(outcome.is_done, outcome.is_unknown) for outcome in outcomes] == [(True, False), (False, True)]


async def test_an_object_that_can_not_be_read_says_nothing_of_the_write_before(tmp_path: Path) -> None:
    async def play(_number: int, request: bytes, answer: asyncio.StreamWriter) -> None:
        if request.startswith(b"GET"):
            answer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>")
        else:
            status = b"409 Conflict" if b"/binding" in request else b"503 Service Unavailable"
            answer.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)

    known = decode_as(ResourceClaim, msgspec.json.encode(claim("c", "gpu")))
    reference, consumer = ClaimReference("default", "c", known.uid), ClaimConsumer(resource="pods", name="a", uid="1")
    async with (
        served(play) as (_, url),
        client_of(kubeconfig(tmp_path / "k", url), Directly.ALL) as client,
        writing(client, look_up_waits_seconds=(0.01,)) as (writer, outcomes),
    ):
        writer.submit(BindPod(1, PodReference("default", "a", "1"), "n1"))
        writer.submit(ReserveClaim(2, reference, consumer, known, Allocation()))
        assert await writer.settle(5)
    assert {(each.ticket, each.status, each.is_unknown) for each in outcomes} == {(1, 409, True), (2, 503, False)}


async def test_a_bind_without_a_connection_has_failed(tmp_path: Path, directly: Directly) -> None:
    """No connection, so no byte of it has left: there is nothing to be unsure of."""
    cluster = EmbeddedCluster(kubelet=None, controllers=False)
    async with cluster:
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
    source = CredentialSource(ConnectionSettings(kubeconfig=str(kubeconfig)), {})
    client = ApiClient(source, directly=directly)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, PodReference("default", "a", "1"), "n1"))
        assert await writer.settle(5)
    await client.close()
    assert [(o.is_done, o.status, o.is_unknown) for o in outcomes] == [(False, 0, False)]


@pytest.mark.parametrize("is_again", [False, True])
async def test_the_pod_is_read_where_a_bind_that_is_sent_again_is_refused(
    cluster: EmbeddedCluster, client: ApiClient, is_again: bool
) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("POST", BINDING, 403)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1", is_again))
        assert await writer.settle(5)
        assert writer.counts.looked_up == is_again
    assert [(each.status, each.is_conclusive, each.is_unbound) for each in outcomes] == [(403, False, is_again)]


async def test_a_refusal_after_which_the_pod_can_not_be_read_is_not_taken_for_a_bind_without_an_answer(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("GET", f"{PODS}/a", 403)
    async with writing(client) as (writer, outcomes):
        cluster.faults.fail("POST", BINDING, 403)
        writer.submit(BindPod(1, pod, "n1", is_again=True))
        assert await writer.settle(5)
        cluster.faults.drop("POST", BINDING)
        writer.submit(BindPod(2, pod, "n1", is_again=True))
        assert await writer.settle(5)
    seen = [(each.status, each.is_unknown, each.is_unread) for each in outcomes]
    assert seen == [(403, True, True), (0, True, False)]


async def test_a_bind_that_fails_with_500_is_not_sent_again(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("POST", BINDING, 500)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        await writer.settle(5)
    assert [(outcome.is_done, outcome.status) for outcome in outcomes] == [(False, 500)]
    assert "nodeName" not in (await read(client, f"{PODS}/a"))["spec"]


async def test_a_pod_that_another_scheduler_bound_is_a_conflict(client: ApiClient) -> None:
    pod = await new_pod(client)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        await writer.settle(5)
        writer.submit(BindPod(2, pod, "n2"))
        await writer.settle(5)
    assert [(outcome.ticket, outcome.is_done, outcome.status) for outcome in outcomes] == [
        (1, True, 201),
        (2, False, 409),
    ]
    assert "already assigned to node 'n1'" in outcomes[1].message


async def test_a_bind_of_a_pod_whose_name_is_used_again_fails(client: ApiClient) -> None:
    await new_pod(client)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, PodReference("default", "a", "its-predecessor"), "n1"))
        await writer.settle(5)
    assert [(outcome.is_done, outcome.status) for outcome in outcomes] == [(False, 404)]
    assert "nodeName" not in (await read(client, f"{PODS}/a"))["spec"]
