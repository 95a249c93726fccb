"""A kubelet that refuses a pod of ours: counted, and its node left alone until its time is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from scheduler import testing
from scheduler.controller.beside.kubelet_reasons import Concern, concern_of
from scheduler.controller.beside.kubelet_refusals import (
    MAX_GONE_KEPT,
    MAX_REASONS_COUNTED,
    TAINT,
    KubeletRefusals,
)
from scheduler.controller.beside.workload_avoidance import MAX_WORKLOADS, WorkloadAvoidance
from scheduler.controller.report.instruments import Counter
from scheduler.controller.run import Shell
from scheduler.controller.write.client import STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.engine.attempt import SCHEDULED, Attempt
from scheduler.messages.commands import BindPod
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, PodsActivated, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import running_shell
from tests.engine.driver import Cluster


async def fail(client: ApiClient, name: str, reason: str) -> None:
    """As the kubelet that does not admit a pod says it."""
    status = {"status": {"phase": "Failed", "reason": reason, "message": "Pod was rejected"}}
    body = msgspec.json.encode(status)
    await client.request("PATCH", f"{PODS}/{name}/status", body=body, content_type=STRATEGIC_MERGE_PATCH)


async def test_a_node_whose_kubelet_refused_a_pod_is_left_alone_and_the_next_pod_goes_elsewhere(
    connection: ConnectionSettings, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    async with running_shell(connection) as shell:
        await create(client, "/api/v1/nodes", node_json("full"))
        await create(client, PODS, pod_json("first"))
        await until(lambda: shell.sink.counts.done == 1 and node_of(shell, "default/first") == "full")
        await fail(client, "first", "OutOfcpu")
        await until(lambda: shell.refusals.backed_off == {"full"})
        assert shell.metrics.kubelet_refusals.child("OutOfcpu").value == 1.0
        await create(client, PODS, pod_json("second"))
        await until(lambda: any("Unable to schedule pod" in line["event"] for line in log_lines))
        await create(client, "/api/v1/nodes", node_json("other"))
        await until(lambda: node_of(shell, "default/second") == "other")
        await shell.reconciler.round()
        assert shell.metrics.repairs.child("nodes").value == 0.0
        assert "taints" not in (await read(client, "/api/v1/nodes/full")).get("spec", {})


async def test_one_bad_workload_keeps_only_its_own_pods_from_a_node(
    connection: ConnectionSettings, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    def bad(name: str) -> dict[str, Any]:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bad", "uid": "bad-uid", "controller": True}
        document = pod_json(name)
        return {**document, "metadata": {**document["metadata"], "ownerReferences": [owner]}}

    async with running_shell(connection) as shell:
        await create(client, "/api/v1/nodes", node_json("only"))
        await create(client, PODS, bad("first"))
        await until(lambda: shell.sink.counts.done == 1 and node_of(shell, "default/first") == "only")
        await fail(client, "first", "TopologyAffinityError")
        await until(lambda: shell.metrics.kubelet_refusals.child("TopologyAffinityError").value == 1.0)
        await create(client, PODS, bad("second"))
        await until(lambda: any("Unable to schedule pod" in line["event"] for line in log_lines))
        await create(client, PODS, pod_json("stranger"))
        await until(lambda: node_of(shell, "default/stranger") == "only")
        await shell.reconciler.round()
        assert shell.metrics.repairs.child("pods").value == 0.0
        assert "affinity" not in (await read(client, f"{PODS}/second"))["spec"]
        await create(client, "/api/v1/nodes", node_json("other"))
        await until(lambda: node_of(shell, "default/second") == "other")


def node_of(shell: Shell, pod: str) -> str:
    (pods,) = [reflector.known for reflector in shell.reflectors if reflector.kind is Kind.POD]
    found = pods.get(pod)
    return found.spec.node_name if isinstance(found, Pod) else ""


class Heard:
    """A cluster of ``node_count`` nodes and the engine's stimuli for them; ``backoff_seconds`` is the first time."""

    def __init__(self, client: ApiClient, backoff_seconds: float, node_count: int = 1) -> None:
        self.taints: list[bool] = []
        self.activated: list[str] = []
        self.counter = Counter("refusals", "", ("reason",))
        self.refusals = KubeletRefusals(
            client, self._feed, testing.node, lambda: node_count, self.counter, backoff_seconds=backoff_seconds
        )

    def _feed(self, stimuli: Sequence[Stimulus]) -> None:
        for stimulus in stimuli:
            if isinstance(stimulus, PodsActivated):
                self.activated += stimulus.keys
            elif isinstance(stimulus, ObjectObserved) and isinstance(stimulus.object, Node):
                self.taints.append(TAINT in stimulus.object.taints)

    def is_shown_tainted(self, node: str) -> bool:
        (shown,) = self.refusals.nodes_for_engine([ObjectObserved(Kind.NODE, testing.node(node))])
        return isinstance(shown, ObjectObserved) and isinstance(shown.object, Node) and TAINT in shown.object.taints

    def kept_from(self, pod: Pod) -> tuple[str, ...]:
        """The nodes that a pod which is observed now keeps away from."""
        (shown,) = self.refusals.pods_for_engine([ObjectObserved(Kind.POD, pod)])
        assert isinstance(shown, ObjectObserved) and isinstance(shown.object, Pod)
        affinity = shown.object.node_affinity
        if affinity is None or affinity.required is None:
            return ()
        (term,) = affinity.required.node_selector_terms
        return tuple(value for field in term.match_fields if field.operator == "NotIn" for value in field.values)


@asynccontextmanager
async def hearing(client: ApiClient, backoff_seconds: float, node_count: int = 1) -> AsyncIterator[Heard]:
    heard = Heard(client, backoff_seconds, node_count)
    running = asyncio.create_task(heard.refusals.run())
    try:
        yield heard
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def pod_of(name: str, owner: str = "", **fields: Any) -> Pod:
    owners = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}] if owner else []
    return testing.pod(name, metadata={"ownerReferences": owners}, phase="Pending", **fields)


async def lose(
    client: ApiClient, heard: Heard, name: str, reason: str, *, node: str = "n", owner: str = "", **fields: Any
) -> None:
    """A pod of ours fails on ``node`` before it has begun, and leaves the watch."""
    document = await create(client, PODS, pod_json(name, node=node))
    pod = pod_of(name, owner, uid=document["metadata"]["uid"], node=node, **fields)
    heard.refusals.placed(Attempt(pod.key, pod.uid, "tandem-scheduler", 1, 0, result=SCHEDULED, node=node))
    await fail(client, name, reason)
    heard.refusals.pods_for_engine([ObjectDeleted(Kind.POD, pod)])


async def test_a_refusal_that_the_watch_shows_before_the_binding_is_answered_counts_as_any_other(
    client: ApiClient,
) -> None:
    async with hearing(client, 100.0) as heard:
        document = await create(client, PODS, pod_json("p", node="n"))
        pod = pod_of("p", "web", uid=document["metadata"]["uid"], node="n")
        await fail(client, "p", "TopologyAffinityError")
        heard.refusals.pods_for_engine([ObjectDeleted(Kind.POD, pod)])
        heard.refusals.placed(Attempt(pod.key, pod.uid, "tandem-scheduler", 1, 0, result=SCHEDULED, node="n"))
        assert heard.kept_from(pod_of("next", "web")) == ("n",)
        await until(lambda: heard.counter.child("TopologyAffinityError").value == 1.0)


async def test_pods_of_other_schedulers_that_end_early_are_kept_in_memory_up_to_a_limit(client: ApiClient) -> None:
    heard = Heard(client, 100.0)
    for number in range(MAX_GONE_KEPT + 1):
        heard.refusals.pods_for_engine(
            [ObjectDeleted(Kind.POD, pod_of(f"p{number}", "web", uid=f"u{number}", node="n"))]
        )
    for number, nodes in ((0, ()), (1, ("n",))):
        attempt = Attempt("", f"u{number}", "tandem-scheduler", 1, 0, result=SCHEDULED, node="n")
        heard.refusals.placed(attempt)
        assert heard.kept_from(pod_of("next", "web")) == nodes


async def test_the_node_is_free_again_when_its_time_is_over(client: ApiClient) -> None:
    async with hearing(client, 0.05) as heard:
        await lose(client, heard, "p", "OutOfmemory")
        await until(lambda: heard.taints == [True])
        assert heard.is_shown_tainted("n")
        await until(lambda: heard.taints == [True, False])
        assert not heard.is_shown_tainted("n")


async def test_a_node_that_refuses_again_and_again_is_left_alone_for_longer_each_time(
    client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    async with hearing(client, 100.0) as heard:
        for number in range(3):
            await lose(client, heard, f"p{number}", "OutOfpods")
            await until(lambda count=number + 1: len(heard.taints) == count)  # type: ignore[misc]
        logged = [line["seconds"] for line in log_lines if "left alone" in line["event"]]
        assert logged == [100, 200, 300]


async def test_a_pod_that_failed_for_another_reason_says_nothing_of_its_node(client: ApiClient) -> None:
    async with hearing(client, 100.0) as heard:
        await lose(client, heard, "other", "DeadlineExceeded", owner="web")
        await lose(client, heard, "refused", "OutOfcpu")
        await until(lambda: heard.taints == [True])
        assert heard.kept_from(pod_of("next", "web")) == ()
        assert heard.counter.child("DeadlineExceeded").value == 0.0
        assert heard.counter.child("OutOfcpu").value == 1.0


async def test_a_refusal_of_one_bad_workload_concerns_pods_of_its_controller_alone(client: ApiClient) -> None:
    async with hearing(client, 100.0, node_count=3) as heard:
        for number in range(3):
            await lose(client, heard, f"bad{number}", "TopologyAffinityError", node=f"n{number}", owner="bad")
        await until(lambda: heard.counter.child("TopologyAffinityError").value == 3.0)
        assert heard.taints == [], "no other pod keeps away from any node"
        assert heard.kept_from(pod_of("next", "bad")) == ("n0", "n1", "n2")
        assert heard.kept_from(pod_of("good", "good")) == ()
        assert heard.kept_from(pod_of("alone")) == ()


async def test_while_the_reason_is_looked_up_pods_of_the_controller_keep_away(client: ApiClient) -> None:
    """The controller may be quicker than the answer."""
    heard = Heard(client, 100.0)
    await lose(client, heard, "first", "OutOfcpu", owner="web")
    assert heard.kept_from(pod_of("next", "web")) == ("n",)
    assert heard.taints == []


async def test_pods_that_waited_because_of_a_refusal_are_tried_when_its_time_is_over(client: ApiClient) -> None:
    async with hearing(client, 0.05) as heard:
        await lose(client, heard, "first", "UnexpectedAdmissionError", owner="web")
        assert heard.kept_from(pod_of("next", "web")) == ("n",)
        await until(lambda: heard.activated == ["default/next"])
        assert heard.kept_from(pod_of("next", "web")) == ()


async def test_never_more_than_a_tenth_of_the_nodes_is_left_alone(
    client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    async with hearing(client, 100.0, node_count=30) as heard:
        for number in range(5):
            await lose(client, heard, f"p{number}", "OutOfcpu", node=f"n{number}")
        await until(lambda: heard.counter.child("OutOfcpu").value == 5.0)
        assert heard.refusals.backed_off == {"n0", "n1", "n2"}
        assert sum("stays in use" in line["event"] for line in log_lines) == 2


async def test_a_pod_that_its_kubelet_had_given_a_start_time_before_it_refused_it_is_looked_up(
    client: ApiClient,
) -> None:
    async with hearing(client, 100.0) as heard:
        await lose(client, heard, "p", "TopologyAffinityError", owner="web", started="2026-01-01T00:00:00Z")
        assert heard.kept_from(pod_of("next", "web")) == ("n",)
        await until(lambda: heard.counter.child("TopologyAffinityError").value == 1.0)


async def test_a_pod_that_its_kubelet_had_begun_with_or_that_was_deleted_is_not_looked_up(client: ApiClient) -> None:
    heard = Heard(client, 100.0)
    status = {"conditions": [{"type": "Initialized", "status": "True"}]}
    begun = pod_of("begun", "web", node="n", started="2026-01-01T00:00:00Z", status=status)
    deleted = pod_of("deleted", "web", node="n", deleted="2026-01-01T00:00:00Z")
    foreign = pod_of("foreign", "web", node="n")
    for pod in (begun, deleted):
        heard.refusals.placed(Attempt(pod.key, pod.uid, "tandem-scheduler", 1, 0, result=SCHEDULED, node="n"))
    heard.refusals.pods_for_engine([ObjectDeleted(Kind.POD, pod) for pod in (begun, deleted, foreign)])
    assert heard.kept_from(pod_of("next", "web")) == ()


async def test_resources_beyond_a_number_are_not_a_label_each(client: ApiClient) -> None:
    async with hearing(client, 100.0) as heard:
        for number in range(MAX_REASONS_COUNTED + 2):
            await lose(client, heard, f"p{number}", f"OutOfexample.com/{number}")
        await until(lambda: heard.counter.child("OutOf").value == 2.0)


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        (None, {"n2"}),
        ([{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}], set()),
        ([{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}, {}], {"n2"}),
        ([{}], set()),
    ],
)
def test_what_the_pod_itself_asks_of_nodes_still_counts(required: Any, expected: set[str]) -> None:
    cluster = Cluster()
    cluster.nodes_like(3, cpu="4")
    avoidance = WorkloadAvoidance(lambda _: None)
    for node in ("n0", "n1"):
        avoidance.avoid("web", node)
    selector = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}}
    affinity = {"affinity": {"nodeAffinity": selector}} if required else {}
    cluster.show(avoidance.pod_for_engine(pod_of("a", "web", spec=affinity)))
    cluster.schedule()
    assert {bind.node for bind in cluster.writes(BindPod)} == expected


def test_a_workload_that_is_dropped_for_newer_ones_may_use_its_node_again_at_once() -> None:
    cluster = Cluster()
    cluster.nodes_like(1, cpu="4")

    def feed(stimuli: Sequence[Stimulus]) -> None:
        for stimulus in stimuli:
            cluster.feed(stimulus)

    avoidance = WorkloadAvoidance(feed)
    avoidance.avoid("web", "n0")
    feed(avoidance.for_engine([ObjectObserved(Kind.POD, pod_of("a", "web"))]))
    cluster.schedule()
    assert not cluster.writes(BindPod)
    for number in range(MAX_WORKLOADS):
        avoidance.avoid(f"other-{number}", "n0")
    cluster.schedule()
    assert [bind.node for bind in cluster.writes(BindPod)] == ["n0"]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("OutOfcpu", Concern.NODE),
        ("OutOfnvidia.com/gpu", Concern.NODE),
        ("NodePorts", Concern.NODE),
        ("UnexpectedAdmissionError", Concern.WORKLOAD),
        ("TopologyAffinityError", Concern.WORKLOAD),
        ("Evicted", None),
        ("", None),
    ],
)
def test_the_workloads_that_a_kubelet_s_reason_concerns(reason: str, expected: Concern | None) -> None:
    assert concern_of(reason) is expected
