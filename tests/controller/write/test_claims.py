"""The requests behind each write of a claim, against the embedded API server."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from scheduler.controller.write.claims import ClaimRequests
from scheduler.controller.write.client import MERGE_PATCH, ApiClient
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.controller.write.writer_settings import WriterSettings
from scheduler.errors import ApiError
from scheduler.messages.claim_commands import (
    CreateClaim,
    DeallocateClaim,
    DeleteClaim,
    ReserveClaim,
    UnreserveClaim,
)
from scheduler.messages.references import ClaimReference, PodReference
from scheduler.objects.kinds import decode_as
from scheduler.objects.resource_claims import (
    CLAIM_FINALIZER,
    Allocation,
    ClaimConsumer,
    DeviceAllocation,
    DeviceResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.write.writing import writing
from tests.device_documents import claim

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
POD = PodReference("default", "p", "uid-of-p")
CONSUMER = ClaimConsumer(resource="pods", name="p", uid="uid-of-p")
RESULT = DeviceResult(request="r", driver="gpu.example.com", pool="n1", device="gpu-0")
ALLOCATION = Allocation(devices=DeviceAllocation(results=(RESULT,)))


@pytest.fixture
def requests(client: ApiClient) -> ClaimRequests:
    return ClaimRequests(client, WriterSettings(), lambda: "2026-01-02T03:04:05Z")


def held() -> Departure:
    """The right to write is held."""
    return Departure(AlwaysHeld())


async def made(client: ApiClient, name: str = "c") -> ResourceClaim:
    return decode_as(ResourceClaim, msgspec.json.encode(await create(client, CLAIMS, claim(name, "gpus"))))


async def change(client: ApiClient, name: str, status: dict[str, Any]) -> None:
    body = msgspec.json.encode({"status": status})
    await client.request("PATCH", f"{CLAIMS}/{name}/status", body=body, content_type=MERGE_PATCH)


def reference(of: ResourceClaim) -> ClaimReference:
    return ClaimReference(of.namespace, of.name, of.uid)


async def test_a_conflict_is_tried_again_with_the_claim_as_it_is_by_then(
    client: ApiClient, requests: ClaimRequests
) -> None:
    known = await made(client)
    label = msgspec.json.encode({"metadata": {"labels": {"touched": "yes"}}})
    await client.request("PATCH", f"{CLAIMS}/c", body=label, content_type=MERGE_PATCH)
    written = await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())
    assert written is not None
    assert written.is_reserved_for(POD.uid)
    assert written.allocation is not None
    assert written.labels == {"touched": "yes"}


async def test_a_claim_that_was_allocated_meanwhile_is_not_allocated_again(
    client: ApiClient, requests: ClaimRequests
) -> None:
    known = await made(client)
    elsewhere = {**msgspec.to_builtins(RESULT), "device": "gpu-1"}
    await change(client, "c", {"allocation": {"devices": {"results": [elsewhere]}}})
    with pytest.raises(ApiError, match="claim default/c got allocated elsewhere in the meantime"):
        await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())
    found = await read(client, f"{CLAIMS}/c")
    assert found["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-1"


async def test_a_claim_that_an_earlier_attempt_of_the_pod_has_given_other_devices_is_an_error(
    client: ApiClient, requests: ClaimRequests
) -> None:
    """As when that attempt was another replica's, or was not answered: the pod was to go where those are of no use."""
    known = await made(client)
    elsewhere = {**msgspec.to_builtins(RESULT), "device": "gpu-1"}
    reserved = [msgspec.to_builtins(CONSUMER)]
    await change(client, "c", {"allocation": {"devices": {"results": [elsewhere]}}, "reservedFor": reserved})
    with pytest.raises(ApiError, match="claim default/c got allocated elsewhere in the meantime"):
        await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())


async def test_a_claim_that_an_earlier_attempt_of_the_pod_has_given_the_same_devices_is_its_own(
    client: ApiClient, requests: ClaimRequests
) -> None:
    known = await made(client)
    reserved = [msgspec.to_builtins(CONSUMER)]
    await change(client, "c", {"allocation": msgspec.to_builtins(ALLOCATION), "reservedFor": reserved})
    written = await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())
    assert written is not None
    assert written.status.reserved_for == (CONSUMER,)


async def test_a_claim_whose_write_had_no_answer_is_looked_up_until_it_can_be_read(
    cluster: EmbeddedCluster, client: ApiClient, requests: ClaimRequests
) -> None:
    """Its devices stay taken meanwhile: given up, they would be given to another claim."""
    known = await made(client)
    cluster.faults.fail("GET", f"{CLAIMS}/c$", 500, times=2)
    found = await requests.look_up(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION))
    assert found is not None and found.uid == known.uid
    assert not cluster.faults.rules


async def test_a_claim_is_reserved_for_a_group(client: ApiClient, requests: ClaimRequests) -> None:
    known = await made(client)
    group = ClaimConsumer(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="uid-of-g")
    await requests.carry_out(ReserveClaim(1, reference(known), group, known, ALLOCATION), held())
    found = await read(client, f"{CLAIMS}/c")
    assert found["status"]["reservedFor"] == [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-of-g"}
    ]


async def test_a_claim_recreated_under_the_same_name_is_another_claim(
    client: ApiClient, requests: ClaimRequests
) -> None:
    known = await made(client)
    await client.request("DELETE", f"{CLAIMS}/c")
    await made(client)
    with pytest.raises(ApiError):
        await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())
    assert "allocation" not in (await read(client, f"{CLAIMS}/c")).get("status", {})


async def test_the_time_of_an_allocation_is_written_with_it(client: ApiClient, requests: ClaimRequests) -> None:
    known = await made(client)
    written = await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())
    assert written is not None
    assert written.allocation is not None
    assert written.allocation.allocation_timestamp == "2026-01-02T03:04:05Z"


async def test_an_allocation_of_another_scheduler_gets_its_time_and_is_left_as_it_is(
    client: ApiClient, requests: ClaimRequests
) -> None:
    await made(client)
    written = {"devices": {"results": [{**msgspec.to_builtins(RESULT), "ofLaterVersions": "kept"}]}}
    await change(client, "c", {"allocation": written})
    known = decode_as(ResourceClaim, msgspec.json.encode(await read(client, f"{CLAIMS}/c")))
    await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known), held())
    found = await read(client, f"{CLAIMS}/c")
    assert found["status"]["allocation"] == written | {"allocationTimestamp": "2026-01-02T03:04:05Z"}
    dated = decode_as(ResourceClaim, msgspec.json.encode(found))
    other = ClaimConsumer(resource="pods", name="q", uid="uid-of-q")
    later = ClaimRequests(client, WriterSettings(), lambda: "2027-01-02T03:04:05Z")
    await later.carry_out(ReserveClaim(1, reference(known), other, dated), held())
    assert (await read(client, f"{CLAIMS}/c"))["status"]["allocation"] == found["status"]["allocation"], "once"


async def test_a_refused_write_says_what_was_being_done(client: ApiClient, requests: ClaimRequests) -> None:
    known = await made(client)
    await client.request("DELETE", f"{CLAIMS}/c")
    with pytest.raises(ApiError, match=r"^add finalizer to claim default/c: "):
        await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())
    allocated = msgspec.structs.replace(known, status=ResourceClaimStatus(allocation=ALLOCATION))
    with pytest.raises(ApiError, match=r"^add reservation to claim default/c: "):
        await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, allocated), held())
    finalized = msgspec.structs.replace(
        known, metadata=msgspec.structs.replace(known.metadata, finalizers=(CLAIM_FINALIZER,))
    )
    with pytest.raises(ApiError, match=r"^add allocation and reservation to claim default/c: "):
        await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, finalized, ALLOCATION), held())


async def test_unreserving_leaves_the_allocation_and_the_other_pods(client: ApiClient, requests: ClaimRequests) -> None:
    known = await made(client)
    other = {"resource": "pods", "name": "q", "uid": "uid-of-q"}
    await change(client, "c", {"reservedFor": [other]})
    await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())
    written = await requests.carry_out(UnreserveClaim(1, reference(known), CONSUMER), held())
    assert written is not None
    assert [one.uid for one in written.status.reserved_for] == ["uid-of-q"]
    assert written.allocation is not None


async def test_unreserving_is_one_request_that_no_conflict_stops(client: ApiClient, requests: ClaimRequests) -> None:
    known = await made(client)
    await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())
    await change(
        client, "c", {"reservedFor": [*msgspec.to_builtins([CONSUMER]), {"resource": "pods", "name": "q", "uid": "q"}]}
    )
    sent: list[str] = []
    client.observe = lambda method, *_: sent.append(method)
    await requests.carry_out(UnreserveClaim(1, reference(known), CONSUMER), held())
    assert sent == ["PATCH"]
    assert [one["uid"] for one in (await read(client, f"{CLAIMS}/c"))["status"]["reservedFor"]] == ["q"]


async def test_a_claim_recreated_under_the_same_name_keeps_its_reservation(
    client: ApiClient, requests: ClaimRequests
) -> None:
    known = await made(client)
    await client.request("DELETE", f"{CLAIMS}/c")
    again = await made(client)
    await requests.carry_out(ReserveClaim(1, reference(again), CONSUMER, again, ALLOCATION), held())
    with pytest.raises(ApiError):
        await requests.carry_out(UnreserveClaim(1, reference(known), CONSUMER), held())
    assert (await read(client, f"{CLAIMS}/c"))["status"]["reservedFor"]


async def test_deallocating_takes_everything_out_of_the_very_version(
    client: ApiClient, requests: ClaimRequests
) -> None:
    known = await made(client)
    written = await requests.carry_out(ReserveClaim(1, reference(known), CONSUMER, known, ALLOCATION), held())
    assert written is not None
    with pytest.raises(ApiError):
        await requests.carry_out(DeallocateClaim(1, reference(known), known.resource_version), held())
    freed = await requests.carry_out(DeallocateClaim(1, reference(known), written.resource_version), held())
    assert freed is not None
    assert freed.allocation is None
    assert not freed.status.reserved_for


async def test_a_claim_of_the_schedulers_own_is_deleted_again_if_the_pod_status_can_not_be_written(
    client: ApiClient, requests: ClaimRequests
) -> None:
    gone = CreateClaim(1, ClaimReference("default", "", ""), POD, ALLOCATION, (), ())
    with pytest.raises(ApiError):
        await requests.carry_out(gone, held())
    assert not (await read(client, CLAIMS))["items"]


async def test_a_claim_of_the_schedulers_own_is_allocated_while_another_client_writes_to_it(
    client: ApiClient, requests: ClaimRequests
) -> None:
    pod = (await create(client, PODS, pod_json("p")))["metadata"]
    label = msgspec.json.encode({"metadata": {"labels": {"touched": "yes"}}})
    touching: list[asyncio.Task[Any]] = []

    async def touch() -> None:
        (made,) = (await read(client, CLAIMS))["items"]
        await client.request("PATCH", f"{CLAIMS}/{made['metadata']['name']}", body=label, content_type=MERGE_PATCH)

    def answered(method: str, *_: object) -> None:
        if method == "POST":
            client.observe = None
            touching.append(asyncio.create_task(touch()))

    client.observe = answered
    owner = PodReference("default", "p", pod["uid"])
    command = CreateClaim(1, ClaimReference("default", "", ""), owner, ALLOCATION, (), (), "n1")
    written = await requests.carry_out(command, held())
    await asyncio.gather(*touching)
    status = (await read(client, f"{PODS}/p"))["status"]
    assert status["nominatedNodeName"] == "n1"
    assert status["extendedResourceClaimStatus"]["resourceClaimName"].startswith("p-extended-resources-")
    assert written is not None
    assert written.is_reserved_for(pod["uid"])
    assert (await read(client, CLAIMS))["items"][0]["metadata"]["labels"] == {"touched": "yes"}


async def test_a_claim_of_the_schedulers_own_is_deleted_finalizer_and_all(
    client: ApiClient, requests: ClaimRequests
) -> None:
    pod = (await create(client, PODS, pod_json("p")))["metadata"]
    owner = PodReference("default", "p", pod["uid"])
    command = CreateClaim(1, ClaimReference("default", "", ""), owner, ALLOCATION, (), ())
    written = await requests.carry_out(command, held())
    assert written is not None
    assert written.is_controlled_by(pod["uid"])
    await requests.carry_out(DeleteClaim(1, reference(written)), held())
    assert not (await read(client, CLAIMS))["items"]


async def test_a_claim_of_the_schedulers_own_that_can_not_be_deleted_again_is_reported_with_its_devices(
    client: ApiClient, cluster: EmbeddedCluster
) -> None:
    """Its pod has gone meanwhile. Until the watch shows the claim its devices would be given again."""
    cluster.faults.fail("DELETE", "/resourceclaims/", 403, times=10)
    async with writing(client) as (writer, outcomes):
        writer.submit(CreateClaim(1, ClaimReference("default", "", ""), POD, ALLOCATION, (), ()))
        await until(lambda: bool(outcomes))
    (outcome,) = outcomes
    assert not outcome.is_done
    assert isinstance(outcome.written, ResourceClaim)
    assert outcome.written.allocation is not None
    assert outcome.written.allocation.devices == ALLOCATION.devices
