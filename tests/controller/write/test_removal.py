"""How victims leave: deletions and evictions as the writer sends them."""

from __future__ import annotations

from scheduler.controller.write.client import ApiClient
from scheduler.messages.commands import DeletePod, EvictPod, PatchPodStatus
from scheduler.messages.references import PodReference
from scheduler.objects.meta import Condition
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.conftest import PODS, read, until
from tests.controller.write.writing import failed_condition, new_pod, new_pod_of_name, writing


async def test_a_victim_s_deletion_waits_for_no_condition(cluster: EmbeddedCluster, client: ApiClient) -> None:
    victim = await new_pod(client, node="n1")
    waiting = [await new_pod_of_name(client, f"p{number}") for number in range(30)]
    cluster.faults.delay("PATCH", "/pods/p", 30.0, times=1000)
    async with writing(client, requests_in_flight=24) as (writer, outcomes):
        for ticket, pod in enumerate(waiting, start=100):
            writer.submit(PatchPodStatus(ticket, pod, failed_condition()))
        await until(lambda: cluster.faults.rules[0].times < 1000)
        disruption = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
        writer.submit(PatchPodStatus(1, victim, disruption))
        await until(lambda: len(outcomes) == 1)
        writer.submit(DeletePod(2, victim))
        await until(lambda: len(outcomes) == 2)
    assert [(outcome.ticket, outcome.is_done) for outcome in outcomes] == [(1, True), (2, True)]


async def test_a_deletion_whose_answer_is_lost_is_sent_again(cluster: EmbeddedCluster, client: ApiClient) -> None:
    bound, gone = await new_pod(client, node="n1"), await new_pod_of_name(client, "b")
    cluster.faults.drop("DELETE", "/pods/", times=2, after=True)
    async with writing(client) as (writer, outcomes):
        writer.submit(DeletePod(1, bound))
        assert await writer.settle(5)
        cluster.faults.drop("DELETE", "/pods/", times=2, after=True)
        writer.submit(DeletePod(2, gone))
        assert await writer.settle(5)
    assert [outcome.is_done or outcome.status for outcome in outcomes] == [True, 404]


async def test_a_deletion_names_the_uid_that_it_means(client: ApiClient) -> None:
    pod = await new_pod(client, node="n1")
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
    pod = await new_pod(client, node="n1")
    cluster.faults.fail("POST", "/pods/a/eviction", 429, reason="TooManyRequests", retry_after=1)
    async with writing(client) as (writer, outcomes):
        writer.submit(EvictPod(1, pod))
        await writer.settle(5)
    assert [(outcome.is_done, outcome.status) for outcome in outcomes] == [(False, 429)]
