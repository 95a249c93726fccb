"""The writer against the embedded API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from scheduler.controller.lead.leadership import AlwaysHeld, Leadership, LeaseToken
from scheduler.controller.settings import WriterSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.requests import WriteRequests
from scheduler.controller.write.writer import Writer
from scheduler.messages.commands import BindPod, DeletePod, EvictPod, PatchPodStatus, UpdateObject
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import Condition
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.conftest import PODS, create, node_document, pod_document, read, until

BINDING = "/pods/a/binding"


@asynccontextmanager
async def writing(
    client: ApiClient,
    leadership: Leadership | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    **limits: Any,
) -> AsyncIterator[tuple[Writer, list[WriteFinished]]]:
    outcomes: list[WriteFinished] = []
    settings = WriterSettings(**limits)
    requests = WriteRequests(client, settings, lambda: "2026-01-02T03:04:05Z")
    writer = Writer(requests, leadership or AlwaysHeld(), outcomes.append, settings, lambda: 0.0, monotonic=monotonic)
    writer.start()
    try:
        yield writer, outcomes
    finally:
        await writer.close()


async def new_pod(client: ApiClient, name: str = "a", **spec: Any) -> PodReference:
    for node in ("n1", "n2"):
        await create(client, "/api/v1/nodes", node_document(node))
    created = await create(client, PODS, pod_document(name, **spec))
    return PodReference("default", name, created["metadata"]["uid"])


def failed_condition(message: str = "0/1 nodes are available") -> Condition:
    return Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)


async def test_a_bind_puts_the_pod_on_its_node(client: ApiClient) -> None:
    pod = await new_pod(client)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(7, pod, "n1"))
        assert await writer.settle(5)
    assert outcomes == [WriteFinished(7, True, 201)]
    assert (await read(client, f"{PODS}/a"))["spec"]["nodeName"] == "n1"


async def test_a_bind_whose_answer_is_lost_is_looked_up_and_found_done(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    cluster.faults.drop("POST", BINDING, after=True)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        await writer.settle(5)
        assert writer.counts.looked_up == 1
    assert outcomes[0].is_done


async def test_a_bind_whose_answer_is_lost_is_looked_up_again_until_the_server_can_tell(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    cluster.faults.drop("POST", BINDING, after=True)
    for status in (503, 403, 500, 401, 503):
        cluster.faults.fail("GET", f"{PODS}/a", status)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        await writer.settle(10)
    assert [outcome.is_done for outcome in outcomes] == [True]


async def test_a_bind_that_times_out_before_the_work_has_failed(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod = await new_pod(client)
    cluster.faults.delay("POST", BINDING, 30.0)
    async with writing(client, bind_timeout_seconds=0.05) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        await writer.settle(5)
    assert [(outcome.is_done, outcome.status, outcome.reason) for outcome in outcomes] == [(False, 0, "Timeout")]


async def test_a_bind_that_fails_with_500_is_not_sent_again(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod = await new_pod(client)
    cluster.faults.fail("POST", BINDING, 500)
    async with writing(client) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        await writer.settle(5)
    assert [(outcome.is_done, outcome.status) for outcome in outcomes] == [(False, 500)]
    assert "nodeName" not in (await read(client, f"{PODS}/a"))["spec"]


async def test_a_pod_that_somebody_else_bound_is_a_conflict(client: ApiClient) -> None:
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


async def test_patches_that_wait_are_folded_into_one_and_dropped_when_the_pod_is_bound(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client)
    other = await new_pod_of_name(client, "b")
    async with writing(client, reports_in_flight=1) as (writer, outcomes):
        cluster.faults.delay("PATCH", "/pods/b/status", 0.1)
        writer.submit(PatchPodStatus(0, other, failed_condition()))
        await asyncio.sleep(0)
        writer.submit(PatchPodStatus(0, pod, failed_condition("first"), "n1"))
        writer.submit(PatchPodStatus(0, pod, failed_condition("second")))
        assert writer.counts.merged == 1
        writer.submit(BindPod(1, pod, "n1"))
        assert writer.counts.overtaken == 1
        await writer.settle(5)
    assert outcomes == [WriteFinished(1, True, 201)]
    conditions = {c["type"]: c["status"] for c in (await read(client, f"{PODS}/a"))["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


async def test_a_report_waits_while_many_bindings_are_open_and_is_not_needed_once_its_pod_is_bound(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod, other = await new_pod(client), await new_pod_of_name(client, "b")
    cluster.faults.delay("POST", BINDING, 0.2)
    async with writing(client, binds_that_press=1, report_patience_seconds=60.0) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        writer.submit(PatchPodStatus(0, other, failed_condition()))
        await until(lambda: writer.binds_in_flight == 1)
        writer.submit(BindPod(2, other, "n1"))
        assert await writer.settle(5)
        assert writer.counts.overtaken == 1
    assert sorted(outcome.ticket for outcome in outcomes) == [1, 2]
    assert "PodScheduled" not in {
        condition["type"]
        for condition in (await read(client, f"{PODS}/b"))["status"]["conditions"]
        if condition["status"] == "False"
    }


async def test_a_report_gives_way_to_bindings_for_a_moment_only(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod, other = await new_pod(client), await new_pod_of_name(client, "b")
    cluster.faults.delay("POST", BINDING, 30.0)
    async with writing(client, binds_that_press=1, report_patience_seconds=0.01) as (writer, _):
        writer.submit(BindPod(1, pod, "n1"))
        await until(lambda: writer.binds_in_flight == 1)
        writer.submit(PatchPodStatus(0, other, failed_condition()))
        await until(lambda: writer.counts.done == 1)
        assert writer.binds_in_flight == 1
    (condition,) = (await read(client, f"{PODS}/b"))["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"


async def test_what_somebody_waits_for_gives_way_to_nothing(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod, victim = await new_pod(client), await new_pod_of_name(client, "b")
    cluster.faults.delay("POST", BINDING, 30.0)
    async with writing(client, binds_that_press=1, report_patience_seconds=60.0) as (writer, outcomes):
        writer.submit(BindPod(1, pod, "n1"))
        await until(lambda: writer.binds_in_flight == 1)
        writer.submit(PatchPodStatus(2, victim, failed_condition()))
        writer.submit(DeletePod(3, victim))
        await until(lambda: len(outcomes) == 2)
    assert [(outcome.ticket, outcome.is_done) for outcome in outcomes] == [(2, True), (3, True)]


async def test_many_writes_that_somebody_waits_for_are_a_crowd_until_a_second_has_passed(client: ApiClient) -> None:
    pod, other = await new_pod(client), await new_pod_of_name(client, "b")
    seconds = 1000.0
    async with writing(client, monotonic=lambda: seconds, writes_that_crowd=2) as (writer, outcomes):
        writer.submit(PatchPodStatus(0, other, failed_condition()))
        writer.submit(BindPod(1, pod, "n1"))
        await until(lambda: len(outcomes) == 1 and writer.counts.done == 2)
        assert not writer.is_crowded, "nobody waits for a condition"
        writer.submit(DeletePod(2, other))
        await until(lambda: len(outcomes) == 2)
        assert writer.is_crowded
        seconds += 1.0
        assert not writer.is_crowded


async def new_pod_of_name(client: ApiClient, name: str) -> PodReference:
    created = await create(client, PODS, pod_document(name))
    return PodReference("default", name, created["metadata"]["uid"])


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


async def test_a_deletion_names_the_uid_that_it_means(client: ApiClient) -> None:
    pod = await new_pod(client, nodeName="n1")
    async with writing(client) as (writer, outcomes):
        writer.submit(DeletePod(1, PodReference("default", "a", "its-predecessor")))
        await writer.settle(5)
        assert "deletionTimestamp" not in (await read(client, f"{PODS}/a"))["metadata"]
        writer.submit(DeletePod(2, pod))
        await writer.settle(5)
    assert [(outcome.ticket, outcome.is_done, outcome.status) for outcome in outcomes] == [
        (1, False, 409),
        (2, True, 200),
    ]
    assert "deletionTimestamp" in (await read(client, f"{PODS}/a"))["metadata"]


async def test_an_eviction_that_a_budget_forbids_is_refused_with_429(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    pod = await new_pod(client, nodeName="n1")
    cluster.faults.fail("POST", "/pods/a/eviction", 429, reason="TooManyRequests", retry_after=1)
    async with writing(client) as (writer, outcomes):
        writer.submit(EvictPod(1, pod))
        await writer.settle(5)
    assert [(outcome.is_done, outcome.status) for outcome in outcomes] == [(False, 429)]


async def test_an_update_carries_the_version_it_was_made_from(client: ApiClient) -> None:
    created = await create(client, "/api/v1/nodes", node_document("n1"))
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


async def test_when_many_binds_wait_there_is_no_room_for_another(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pods = [await new_pod(client)] + [await new_pod_of_name(client, f"p{number}") for number in range(3)]
    async with writing(client, binds_in_flight=1, binds_queued=2) as (writer, outcomes):
        for ticket, pod in enumerate(pods, start=1):
            writer.submit(BindPod(ticket, pod, "n1"))
        had_room = writer.has_room
        await writer.settle(5)
        assert (had_room, writer.has_room) == (False, True)
    assert [outcome.is_done for outcome in outcomes] == [True] * 4


async def test_settling_gives_up_when_the_time_is_over(cluster: EmbeddedCluster, client: ApiClient) -> None:
    pod = await new_pod(client)
    cluster.faults.delay("POST", BINDING, 30.0)
    async with writing(client) as (writer, _):
        writer.submit(BindPod(1, pod, "n1"))
        assert not await writer.settle(0.05)
        assert writer.open_writes == 1
