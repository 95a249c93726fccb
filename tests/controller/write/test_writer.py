"""The writer against the embedded API server."""

from __future__ import annotations

import asyncio

import msgspec

from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.leadership import LeaseToken
from scheduler.messages.claim_commands import CreateClaim, ReserveClaim
from scheduler.messages.commands import BindPod, DeletePod, PatchPodStatus, UpdateObject
from scheduler.messages.references import ClaimReference
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.meta import Condition
from scheduler.objects.resource_claims import Allocation, ClaimConsumer, ResourceClaim
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.write.writing import failed_condition, new_pod, new_pod_of_name, writing
from tests.device_documents import claim

BINDING = "/pods/a/binding"


async def test_nothing_leaves_without_the_lease(client: ApiClient) -> None:
    pod = await new_pod(client)
    token = LeaseToken(clock=lambda: 100.0)
    token.extend(99.0)
    async with writing(client, token) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        writer.submit(DeletePod(2, pod))
        await writer.settle(5)
        assert writer.counts.refused_without_lease == 2
    assert {(outcome.is_done, outcome.reason) for outcome in outcomes} == {(False, "LeadershipLost")}
    assert "deletionTimestamp" not in (await read(client, f"{PODS}/a"))["metadata"]


async def test_a_status_patch_sets_one_condition_and_the_nomination_and_leaves_the_rest(client: ApiClient) -> None:
    pod = await new_pod(client)
    async with writing(client) as (writer, _):
        writer.submit(PatchPodStatus(0, pod, Condition(type="Ready", status="False"), None))
        await writer.settle(5)
        writer.submit(PatchPodStatus(0, pod, failed_condition(), "n1"))
        await writer.settle(5)
        status = (await read(client, f"{PODS}/a"))["status"]
        assert {condition["type"] for condition in status["conditions"]} == {"Ready", "PodScheduled"}
        scheduled = next(condition for condition in status["conditions"] if condition["type"] == "PodScheduled")
        assert scheduled["message"] == "0/1 nodes are available"
        assert scheduled["lastTransitionTime"] == "2026-01-02T03:04:05Z"
        assert status["nominatedNodeName"] == "n1"
        assert status["phase"] == "Pending"
        writer.submit(PatchPodStatus(0, pod, None, ""))
        await writer.settle(5)
    assert "nominatedNodeName" not in (await read(client, f"{PODS}/a"))["status"]


async def test_a_status_patch_is_tried_four_times(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("PATCH", "/pods/a/status", 503, times=3)
    async with writing(client) as (writer, outcomes):
        writer.submit(PatchPodStatus(1, pod, failed_condition()))
        await writer.settle(5)
        cluster.faults.fail("PATCH", "/pods/a/status", 503, times=4)
        writer.submit(PatchPodStatus(2, pod, failed_condition("again")))
        await writer.settle(5)
    assert [(outcome.ticket, outcome.is_done) for outcome in outcomes] == [(1, True), (2, False)]
    assert cluster.faults.rules == []


async def test_a_condition_that_is_queued_is_replaced_by_a_newer_one_and_both_are_answered(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    async with writing(client) as (writer, outcomes):
        writer.submit(PatchPodStatus(1, pod, failed_condition("first"), "n1"))
        writer.submit(PatchPodStatus(2, pod, failed_condition("second")))
        assert await writer.settle(5)
        assert (writer.merged, writer.counts.done) == (1, 1)
    assert sorted((outcome.ticket, outcome.is_done) for outcome in outcomes) == [(1, True), (2, True)]
    status = (await read(client, f"{PODS}/a"))["status"]
    assert [condition["message"] for condition in status["conditions"]] == ["second"]
    assert status["nominatedNodeName"] == "n1"


async def test_a_failed_attempt_s_condition_is_never_left_after_the_bind_of_its_pod(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    """Every failed attempt asks for an answer. Those that are queued are replaced, the one under way goes before."""
    under_way, queued = await new_pod(client), await new_pod_of_name(client, "b")
    cluster.faults.delay("PATCH", "/pods/a/status", 0.1)
    async with writing(client) as (writer, outcomes):
        writer.submit(PatchPodStatus(1, under_way, failed_condition()))
        await until(lambda: writer.open_writes == 1 and not cluster.faults.rules)
        writer.submit(PatchPodStatus(2, under_way, failed_condition("again")))
        writer.submit(PatchPodStatus(3, queued, failed_condition()))
        writer.submit(BindPod(4, under_way, "n1"))
        writer.submit(BindPod(5, queued, "n1"))
        assert await writer.settle(5)
        assert writer.counts.done == 3
    assert sorted((outcome.ticket, outcome.is_done) for outcome in outcomes) == [(n, True) for n in (1, 2, 3, 4, 5)]
    for name in "ab":
        conditions = {c["type"]: c["status"] for c in (await read(client, f"{PODS}/{name}"))["status"]["conditions"]}
        assert conditions["PodScheduled"] == "True"


async def test_a_bind_overtakes_a_crowd_of_conditions_and_takes_that_of_its_own_pod_away(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    crowd = [await new_pod_of_name(client, f"p{number}") for number in range(30)]
    cluster.faults.delay("PATCH", "/pods/p", 0.3, times=1000)
    async with writing(client) as (writer, _):
        for ticket, other in enumerate(crowd, start=100):
            writer.submit(PatchPodStatus(ticket, other, failed_condition()))
        await until(lambda: cluster.faults.rules[0].times < 1000)
        writer.submit(PatchPodStatus(1, pod, failed_condition()))
        writer.submit(BindPod(2, pod, "n1"))
        assert await writer.settle(10)
    conditions = {c["type"]: c["status"] for c in (await read(client, f"{PODS}/a"))["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


async def test_where_a_pod_is_about_to_go_is_written_while_it_waits_and_not_in_a_storm(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    waiting, quick = await new_pod(client), await new_pod_of_name(client, "b")
    crowd = [await new_pod_of_name(client, f"p{number}") for number in range(12)]
    for path in ("/pods/a/", "/pods/b/"):
        cluster.faults.delay("PATCH", path, 0.0, times=1000)
    seen_of_a, seen_of_b = cluster.faults.rules
    cluster.faults.delay("PATCH", "/pods/p", 0.3, times=1000)
    async with writing(client) as (writer, outcomes):
        writer.submit(PatchPodStatus(0, waiting, nominated_node_name="n1", is_announcement=True))
        await until(lambda: seen_of_a.times == 999)
        for other in crowd:
            writer.submit(PatchPodStatus(0, other, nominated_node_name="n1", is_announcement=True))
        writer.submit(PatchPodStatus(0, quick, nominated_node_name="n1", is_announcement=True))
        writer.submit(BindPod(2, quick, "n1"))
        await until(lambda: bool(outcomes))
        assert (await read(client, f"{PODS}/a"))["status"]["nominatedNodeName"] == "n1"
    assert (await read(client, f"{PODS}/b"))["spec"]["nodeName"] == "n1"
    assert seen_of_b.times == 1000, "the binding has replaced it"


async def test_a_claim_that_is_made_for_a_pod_does_not_replace_what_is_announced_of_it(client: ApiClient) -> None:
    pod = await new_pod(client)
    async with writing(client) as (writer, outcomes):
        writer.submit(PatchPodStatus(7, pod, nominated_node_name="n1", is_announcement=True))
        writer.submit(CreateClaim(1, ClaimReference("default", "", ""), pod, Allocation(), (), ()))
        await until(lambda: len(outcomes) == 2)
    status = (await read(client, f"{PODS}/a"))["status"]
    assert status["nominatedNodeName"] == "n1"
    assert status["extendedResourceClaimStatus"]["resourceClaimName"]


async def test_a_bind_does_not_wait_for_the_retries_of_its_pod_s_condition(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("PATCH", "/pods/a/status", 429, times=100, retry_after=5)
    async with writing(client) as (writer, outcomes):
        writer.submit(PatchPodStatus(1, pod, failed_condition()))
        await until(lambda: cluster.faults.rules[0].times < 100)
        writer.submit(BindPod(2, pod, "n1"))
        assert await writer.settle(4)
    assert sorted((outcome.ticket, outcome.is_done) for outcome in outcomes) == [(1, True), (2, True)]


async def test_an_update_whose_answer_is_lost_is_not_sent_again(cluster: EmbeddedCluster, client: ApiClient) -> None:
    created = await create(client, "/api/v1/nodes", node_json("n1"))
    changes = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"], "annotations": {"x": "y"}}}
    cluster.faults.drop("PATCH", "/nodes/n1", after=True)
    async with writing(client) as (writer, outcomes):
        writer.submit(UpdateObject(1, Kind.NODE, "n1", changes))
        assert await writer.settle(5)
    assert [(outcome.is_done, outcome.status) for outcome in outcomes] == [(False, 0)]


async def test_the_writes_of_one_pod_leave_one_after_the_other(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod = await new_pod(client)
    cluster.faults.delay("PATCH", "/pods/a/status", 0.1)
    async with writing(client) as (writer, outcomes):
        writer.submit(PatchPodStatus(1, pod, failed_condition()))
        await asyncio.sleep(0.02)
        writer.submit(BindPod(2, pod, "n1"))
        await writer.settle(5)
    assert [outcome.ticket for outcome in outcomes] == [1, 2]
    conditions = {c["type"]: c["status"] for c in (await read(client, f"{PODS}/a"))["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


async def test_an_update_carries_the_version_it_was_made_from(client: ApiClient) -> None:
    created = await create(client, "/api/v1/nodes", node_json("n1"))
    version = created["metadata"]["resourceVersion"]
    changes = {"metadata": {"resourceVersion": version, "annotations": {"x": "y"}}}
    async with writing(client) as (writer, outcomes):
        writer.submit(UpdateObject(1, Kind.NODE, "n1", changes))
        await writer.settle(5)
        writer.submit(
            UpdateObject(2, Kind.NODE, "n1", {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}})
        )
        await writer.settle(5)
    assert [(outcome.ticket, outcome.is_done, outcome.status) for outcome in outcomes] == [
        (1, True, 200),
        (2, False, 409),
    ]


async def test_an_update_that_is_no_json_is_answered_and_holds_up_no_other_write(client: ApiClient) -> None:
    """As of a plugin in Python, whose binding would wait for it for ever."""
    created = await create(client, "/api/v1/nodes", node_json("n1"))
    version = created["metadata"]["resourceVersion"]
    async with writing(client) as (writer, outcomes):
        for ticket, value in ((1, object()), (2, "y")):
            changes = {"metadata": {"resourceVersion": version, "annotations": {"x": value}}}
            writer.submit(UpdateObject(ticket, Kind.NODE, "n1", changes))
        await writer.settle(5)
    assert [(outcome.ticket, outcome.is_done) for outcome in outcomes] == [(1, False), (2, True)]


async def test_when_many_binds_wait_there_is_no_room_for_another(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pods = [await new_pod(client)] + [await new_pod_of_name(client, f"p{number}") for number in range(11)]
    async with writing(client, requests_in_flight=24, binds_queued=2) as (writer, outcomes):
        for ticket, pod in enumerate(pods, start=1):
            writer.submit(BindPod(ticket, pod, "n1"))
        had_room = writer.has_room_for(1)
        assert await writer.settle(5)
        assert (had_room, writer.has_room_for(1)) == (False, True)
    assert [outcome.is_done for outcome in outcomes] == [True] * 12


async def test_claims_that_are_being_written_count_as_the_bindings_that_follow(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    cluster.faults.delay("PATCH", "/resourceclaims/", 0.1, times=1000)
    made = [
        decode_as(ResourceClaim, msgspec.json.encode(await create(client, path, claim(f"c{number}", "gpus"))))
        for number in range(3)
    ]
    async with writing(client, binds_queued=2) as (writer, outcomes):
        for ticket, one in enumerate(made, start=1):
            reference = ClaimReference(one.namespace, one.name, one.uid)
            consumer = ClaimConsumer(resource="pods", name="p", uid="uid-of-p")
            writer.submit(ReserveClaim(ticket, reference, consumer, one, Allocation()))
        had_room = writer.has_room_for(1)
        assert await writer.settle(5)
        assert (had_room, writer.has_room_for(1)) == (False, True)
    assert [outcome.is_done for outcome in outcomes] == [True] * 3


async def test_settling_gives_up_when_the_time_is_over(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod = await new_pod(client)
    cluster.faults.delay("POST", BINDING, 30.0)
    async with writing(client) as (writer, _):
        writer.submit(BindPod(1, pod, "n1"))
        assert not await writer.settle(0.05)
        assert writer.open_writes == 1
