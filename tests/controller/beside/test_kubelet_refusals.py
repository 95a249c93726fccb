"""A kubelet that refuses a pod of ours: counted, and its node left alone until its time is over."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.beside.kubelet_refusals import TAINT, KubeletRefusals, is_refusal
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.report.instruments import Counter
from scheduler.controller.run import Shell
from scheduler.controller.settings import (
    ConnectionSettings,
    LeaderElectionSettings,
    OperatorOptions,
    ServingSettings,
    ShellSettings,
)
from scheduler.controller.write.client import STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.engine.attempt import SCHEDULED, Attempt
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from tests import builders
from tests.controller.conftest import PODS, create, node_document, pod_document, read, until
from tests.controller.test_engine_end_to_end import CONFIGURATION


async def fail(client: ApiClient, name: str, reason: str) -> None:
    """As the kubelet that does not admit a pod says it."""
    status = {"status": {"phase": "Failed", "reason": reason, "message": "Pod was rejected"}}
    body = msgspec.json.encode(status)
    await client.request("PATCH", f"{PODS}/{name}/status", body=body, content_type=STRATEGIC_MERGE_PATCH)


async def test_a_node_whose_kubelet_refused_a_pod_is_left_alone_and_the_next_pod_goes_elsewhere(
    connection: ConnectionSettings, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    shell = Shell(
        ShellSettings(
            "host",
            connection=connection,
            leader_election=LeaderElectionSettings(leader_elect=False),
            serving=ServingSettings(port=0),
            operator=OperatorOptions(enabled=False),
        ),
        Parts(build_engine(load(CONFIGURATION), started=read_clock(), seed=1)),
        {},
    )
    running = asyncio.create_task(shell.run())
    try:
        await create(client, "/api/v1/nodes", node_document("full"))
        await create(client, PODS, pod_document("first"))
        await until(lambda: shell.sink.counts.done == 1 and node_of(shell, "default/first") == "full")
        await fail(client, "first", "OutOfcpu")
        await until(lambda: shell.refusals.backed_off == {"full"})
        assert shell.metrics.kubelet_refusals.child("OutOfcpu").value == 1.0
        await create(client, PODS, pod_document("second"))
        await until(lambda: any("Unable to schedule pod" in line["event"] for line in log_lines))
        await create(client, "/api/v1/nodes", node_document("other"))
        await until(lambda: node_of(shell, "default/second") == "other")
        await shell.reconciler.round()
        assert shell.metrics.repairs.child("nodes").value == 0.0
        assert "taints" not in (await read(client, "/api/v1/nodes/full")).get("spec", {})
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def node_of(shell: Shell, pod: str) -> str:
    (pods,) = [reflector.known for reflector in shell.reflectors if reflector.kind is Kind.POD]
    found = pods.get(pod)
    assert isinstance(found, Pod)
    return found.spec.node_name


class Heard:
    """Refusals of a node "n" with what the engine is told of it; ``times`` are seconds of back-off."""

    def __init__(self, client: ApiClient, backoff_seconds: float) -> None:
        self.node = builders.node("n")
        self.taints: list[bool] = []
        self.counter = Counter("refusals", "", ("reason",))
        self.refusals = KubeletRefusals(
            client, self._feed, lambda name: self.node, self.counter, backoff_seconds=backoff_seconds
        )

    def _feed(self, stimuli: Any) -> None:
        for stimulus in stimuli:
            self.taints.append(is_tainted(stimulus))


def is_tainted(stimulus: Stimulus) -> bool:
    assert isinstance(stimulus, ObjectObserved) and isinstance(stimulus.object, Node)
    return TAINT in stimulus.object.taints


async def lose(client: ApiClient, heard: Heard, name: str, reason: str) -> None:
    document = await create(client, PODS, pod_document(name, nodeName="n"))
    pod = builders.pod(name, uid=document["metadata"]["uid"], node="n", phase="Pending")
    before = len(heard.taints)
    heard.refusals.placed(Attempt(pod.key, pod.uid, "tandem-scheduler", 1, 0, result=SCHEDULED, node="n"))
    await fail(client, name, reason)
    heard.refusals.see([ObjectDeleted(Kind.POD, pod)])
    assert heard.taints[before:] == [True], "at once: the owner may be quicker than the answer"
    del heard.taints[before:]


async def test_the_node_is_free_again_when_its_time_is_over(client: ApiClient) -> None:
    heard = Heard(client, 0.05)
    running = asyncio.create_task(heard.refusals.run())
    try:
        await lose(client, heard, "p", "OutOfmemory")
        await until(lambda: heard.taints == [True])
        seen = ObjectObserved(Kind.NODE, heard.node)
        assert [is_tainted(one) for one in heard.refusals.dress([seen])] == [True]
        await until(lambda: heard.taints == [True, False])
        assert [is_tainted(one) for one in heard.refusals.dress([seen])] == [False]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_node_that_refuses_again_and_again_is_left_alone_for_longer_each_time(
    client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    heard = Heard(client, 100.0)
    running = asyncio.create_task(heard.refusals.run())
    try:
        for number in range(3):
            await lose(client, heard, f"p{number}", "OutOfpods")
            await until(lambda count=number + 1: len(heard.taints) == count)  # type: ignore[misc]
        told = [line["seconds"] for line in log_lines if "left alone" in line["event"]]
        assert told == [100, 200, 300]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_pod_that_failed_for_another_reason_says_nothing_of_its_node(client: ApiClient) -> None:
    heard = Heard(client, 100.0)
    running = asyncio.create_task(heard.refusals.run())
    try:
        await lose(client, heard, "other", "DeadlineExceeded")
        await until(lambda: heard.taints == [False])
        await lose(client, heard, "refused", "OutOfcpu")
        await until(lambda: heard.taints == [False, True])
        assert heard.counter.child("DeadlineExceeded").value == 0.0
        assert heard.counter.child("OutOfcpu").value == 1.0
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_pod_that_its_kubelet_had_begun_with_or_that_was_deleted_is_not_looked_up(client: ApiClient) -> None:
    heard = Heard(client, 100.0)
    begun = builders.pod("begun", node="n", phase="Pending", started="2026-01-01T00:00:00Z")
    deleted = builders.pod("deleted", node="n", phase="Pending", deleted="2026-01-01T00:00:00Z")
    foreign = builders.pod("foreign", node="n", phase="Pending")
    for pod in (begun, deleted):
        heard.refusals.placed(Attempt(pod.key, pod.uid, "tandem-scheduler", 1, 0, result=SCHEDULED, node="n"))
    heard.refusals.see([ObjectDeleted(Kind.POD, pod) for pod in (begun, deleted, foreign)])
    assert heard.taints == []


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("OutOfcpu", True),
        ("OutOfnvidia.com/gpu", True),
        ("UnexpectedAdmissionError", True),
        ("Evicted", False),
        ("", False),
    ],
)
def test_what_a_kubelet_says_when_it_does_not_admit_a_pod_is_known(reason: str, expected: bool) -> None:
    assert is_refusal(reason) is expected
