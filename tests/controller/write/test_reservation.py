"""Claims reserved by the writer: two requests where all is well, and whatever else it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.controller.write.client import MERGE_PATCH, ApiClient, Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.messages.claim_commands import ReserveClaim
from scheduler.messages.references import ClaimReference
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.kinds import decode_as
from scheduler.objects.resource_claims import (
    CLAIM_FINALIZER,
    AllocatedConfiguration,
    Allocation,
    ClaimConsumer,
    DeviceAllocation,
    DeviceResult,
    ResourceClaim,
)
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.conftest import create, read, until
from tests.controller.write.scripted_server import client_of, served
from tests.controller.write.test_binary import ALLOCATION as WITH_PARAMETERS
from tests.controller.write.test_binary import claimed, refusing_patches
from tests.controller.write.test_credentials import kubeconfig
from tests.controller.write.writing import writing
from tests.device_documents import claim

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CONSUMER = ClaimConsumer(resource="pods", name="p", uid="uid-of-p")
RESULT = DeviceResult(request="r", driver="gpu.example.com", pool="n1", device="gpu-0")
ALLOCATION = Allocation(devices=DeviceAllocation(results=(RESULT,)))


@pytest.fixture
async def writer_client(connection: ConnectionSettings, directly: Directly) -> AsyncIterator[ApiClient]:
    made = ApiClient(CredentialSource(connection, {}), directly=directly)
    await made.connect()
    yield made
    await made.close()


async def made(client: ApiClient, name: str = "c") -> ResourceClaim:
    return decode_as(ResourceClaim, msgspec.json.encode(await create(client, CLAIMS, claim(name, "gpus"))))


async def touch(client: ApiClient, name: str = "c") -> None:
    """Another client writes to the claim."""
    label = msgspec.json.encode({"metadata": {"labels": {"touched": "yes"}}})
    await client.request("PATCH", f"{CLAIMS}/{name}", body=label, content_type=MERGE_PATCH)


def reserving(known: ResourceClaim, consumer: ClaimConsumer = CONSUMER, ticket: int = 1) -> ReserveClaim:
    return ReserveClaim(ticket, ClaimReference(known.namespace, known.name, known.uid), consumer, known, ALLOCATION)


async def reserved(client: ApiClient, command: ReserveClaim) -> WriteFinished:
    async with writing(client) as (writer, outcomes):
        writer.submit(command)
        assert await writer.settle(10)
    (outcome,) = outcomes
    return outcome


async def test_a_claim_is_reserved_with_two_requests(writer_client: ApiClient) -> None:
    known = await made(writer_client)
    sent: list[str] = []
    writer_client.observe = lambda method, *_: sent.append(method)
    outcome = await reserved(writer_client, reserving(known))
    assert sent == ["PATCH", "PATCH"]
    assert (outcome.ticket, outcome.is_done) == (1, True)
    stored = decode_as(ResourceClaim, msgspec.json.encode(await read(writer_client, f"{CLAIMS}/c")))
    assert outcome.written == stored
    assert stored.metadata.finalizers == (CLAIM_FINALIZER,)
    assert stored.is_reserved_for(CONSUMER.uid)
    assert stored.allocation == msgspec.structs.replace(ALLOCATION, allocation_timestamp="2026-01-02T03:04:05Z")


async def test_a_conflict_is_tried_again_with_the_claim_as_it_is_by_then(writer_client: ApiClient) -> None:
    known = await made(writer_client)
    await touch(writer_client)
    outcome = await reserved(writer_client, reserving(known))
    assert outcome.written is not None
    assert isinstance(outcome.written, ResourceClaim)
    assert outcome.written.is_reserved_for(CONSUMER.uid)
    assert outcome.written.labels == {"touched": "yes"}


async def test_a_conflict_between_the_two_requests_is_tried_again(writer_client: ApiClient) -> None:
    known = await made(writer_client)
    touching: list[asyncio.Task[None]] = []

    def answered(method: str, *_: object) -> None:
        writer_client.observe = None
        touching.append(asyncio.create_task(touch(writer_client)))

    writer_client.observe = answered
    outcome = await reserved(writer_client, reserving(known))
    await asyncio.gather(*touching)
    assert outcome.is_done
    assert (await read(writer_client, f"{CLAIMS}/c"))["metadata"]["labels"] == {"touched": "yes"}


async def test_pods_that_share_a_claim_are_all_entered_with_a_request_each(writer_client: ApiClient) -> None:
    known = await made(writer_client)
    sent: list[tuple[str, int]] = []
    writer_client.observe = lambda method, _, status, __: sent.append((method, status))
    pods = [ClaimConsumer(resource="pods", name=f"p{number}", uid=f"uid-of-p{number}") for number in range(20)]
    async with writing(writer_client) as (writer, outcomes):
        for ticket, one in enumerate(pods, start=1):
            writer.submit(reserving(known, one, ticket))
        assert await writer.settle(20)
    assert [outcome.is_done for outcome in outcomes] == [True] * 20
    assert sent == [("PATCH", 200)] * 21, "the finalizer, and each pod"
    found = await read(writer_client, f"{CLAIMS}/c")
    assert sorted(one["name"] for one in found["status"]["reservedFor"]) == sorted(one.name for one in pods)


async def test_a_claim_that_is_gone_is_an_error_that_says_what_was_being_done(writer_client: ApiClient) -> None:
    known = await made(writer_client)
    await writer_client.request("DELETE", f"{CLAIMS}/c")
    outcome = await reserved(writer_client, reserving(known))
    assert (outcome.is_done, outcome.status) == (False, 404)
    assert outcome.message.startswith("add finalizer to claim default/c: ")


async def test_a_claim_that_was_allocated_meanwhile_is_left_as_it_is(writer_client: ApiClient) -> None:
    known = await made(writer_client)
    elsewhere = {"devices": {"results": [{**msgspec.to_builtins(RESULT), "device": "gpu-1"}]}}
    body = msgspec.json.encode({"status": {"allocation": elsewhere}})
    await writer_client.request("PATCH", f"{CLAIMS}/c/status", body=body, content_type=MERGE_PATCH)
    outcome = await reserved(writer_client, reserving(known))
    assert (outcome.is_done, outcome.message) == (False, "claim default/c got allocated elsewhere in the meantime")
    assert (await read(writer_client, f"{CLAIMS}/c"))["status"]["allocation"] == elsewhere


async def test_without_the_lease_nothing_is_written_after_the_first_request(writer_client: ApiClient) -> None:
    known = await made(writer_client)
    answers = iter([True, False])

    class LostInBetween:
        def is_held(self) -> bool:
            return next(answers)

    async with writing(writer_client, LostInBetween()) as (writer, outcomes):
        writer.submit(reserving(known))
        assert await writer.settle(10)
    assert [(outcome.is_done, outcome.reason) for outcome in outcomes] == [(False, "LeadershipLost")]
    assert "allocation" not in (await read(writer_client, f"{CLAIMS}/c")).get("status", {})


async def test_what_became_of_a_lost_answer_is_read(cluster: EmbeddedCluster, writer_client: ApiClient) -> None:
    known = await made(writer_client)
    cluster.faults.drop("PATCH", "/resourceclaims/c/status", after=True)
    outcome = await reserved(writer_client, reserving(known))
    assert not outcome.is_done
    assert isinstance(outcome.written, ResourceClaim)
    assert outcome.written.allocation is not None


async def test_what_became_of_a_write_whose_answer_is_no_claim_is_read(
    cluster: EmbeddedCluster, writer_client: ApiClient
) -> None:
    known = await made(writer_client)
    cluster.faults.answer("PATCH", "/resourceclaims/c", b"<html></html>")
    outcome = await reserved(writer_client, reserving(known))
    assert (outcome.is_done, outcome.status, outcome.written) == (False, 0, known)


async def test_nothing_is_reported_of_a_reservation_that_is_cancelled(
    cluster: EmbeddedCluster, writer_client: ApiClient
) -> None:
    known = await made(writer_client)
    cluster.faults.delay("PATCH", "/resourceclaims/c", 30.0)
    async with writing(writer_client) as (writer, outcomes):
        writer.submit(reserving(known))
        await until(lambda: not cluster.faults.rules)
    assert outcomes == []


async def test_a_claim_whose_parameters_no_patch_leaves_alone_is_reserved_in_binary_form(
    tmp_path: Path, directly: Directly
) -> None:
    known = decode_as(ResourceClaim, claimed("{ }", allocation=WITH_PARAMETERS))
    play = refusing_patches(b"7", claimed("{ }", allocation=WITH_PARAMETERS))
    async with served(play) as (server, url), client_of(kubeconfig(tmp_path / "k", url), directly) as client:
        await client.connect()
        command = msgspec.structs.replace(reserving(known), allocation=None)
        outcome = await reserved(client, command)
        assert outcome.is_done
        methods: list[Any] = [request.partition(b" ")[0] for request in server.requests]
        assert methods == [b"PATCH", b"GET", b"PUT"]


async def test_a_finalizer_that_is_taken_away_at_once_is_written_once(tmp_path: Path, directly: Directly) -> None:
    known = decode_as(ResourceClaim, claimed("{ }"))

    async def stripping(_number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
        content = claimed("{ }")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content))

    async with served(stripping) as (server, url):
        async with client_of(kubeconfig(tmp_path / "k", url), directly) as client:
            await client.connect()
            assert (await reserved(client, reserving(known))).is_done
        assert len(server.requests) == 2


async def test_what_drivers_parameters_say_is_null_is_written_with_the_devices(writer_client: ApiClient) -> None:
    known = await made(writer_client)
    parameters: dict[str, object] = {"profile": None, "modes": [{"mps": None}, None], "share": 1}
    opaque: dict[str, object] = {"driver": "gpu.example.com", "parameters": parameters}
    config = AllocatedConfiguration(source="FromClass", opaque=opaque)
    allocation = Allocation(devices=DeviceAllocation(results=(RESULT,), config=(config,)))
    outcome = await reserved(writer_client, msgspec.structs.replace(reserving(known), allocation=allocation))
    assert outcome.is_done
    status = (await read(writer_client, f"{CLAIMS}/c"))["status"]
    assert status["allocation"]["devices"]["config"][0]["opaque"]["parameters"] == parameters
    assert [one["name"] for one in status["reservedFor"]] == ["p"]


async def test_a_claim_with_nulls_in_its_parameters_is_reserved_in_the_version_that_is_known(
    writer_client: ApiClient,
) -> None:
    known = await made(writer_client)
    opaque: dict[str, object] = {"driver": "gpu.example.com", "parameters": {"profile": None}}
    config = AllocatedConfiguration(source="FromClass", opaque=opaque)
    allocation = Allocation(devices=DeviceAllocation(results=(RESULT,), config=(config,)))
    sent: list[int] = []

    def answered(_method: str, _path: str, status: int, _seconds: float) -> None:
        sent.append(status)
        if len(sent) == 1:
            touching.append(asyncio.create_task(touch(writer_client)))

    touching: list[asyncio.Task[None]] = []
    writer_client.observe = answered
    outcome = await reserved(writer_client, msgspec.structs.replace(reserving(known), allocation=allocation))
    await asyncio.gather(*touching)
    assert outcome.is_done
    assert (await read(writer_client, f"{CLAIMS}/c"))["metadata"]["labels"] == {"touched": "yes"}
