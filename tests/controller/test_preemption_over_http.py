"""Preemption through the shipped shell and the embedded API server: kube-scheduler's basic race scenarios, 1 to 7.

The same are played on virtual time, with the others, in ``tests/engine/test_races.py``. Nodes have no kubelets: a pod
with a grace period terminates for as long as the test likes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from scheduler.compose import build_engine, build_profiles
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.report.engine_gauges import GaugesOfEngine
from scheduler.controller.run import Shell
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.engine.engine import Engine
from scheduler.errors import ApiError
from scheduler.framework.plugin import Plugin
from scheduler.messages.status import unresolvable, unschedulable
from scheduler.messages.stimuli import PodsActivated
from scheduler.plugins.registry import registry
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from scheduler.testing.fragments import affinity_json, pod_term
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import quiet_settings, running
from tests.engine.scripted import scripted

GRACE = 1000


class Running:
    """The scheduler in this process, and what a test asks of the cluster."""

    def __init__(self, shell: Shell, engine: Engine, client: ApiClient) -> None:
        self.shell = shell
        self.engine = engine
        self.client = client

    async def node(self, name: str = "n", **labels: str) -> None:
        document = node_json(name)
        document["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
        await create(self.client, "/api/v1/nodes", document)
        await until(lambda: name in self.engine.cache.table.names)

    async def pod(
        self, name: str, cpu: str, *, level: str = "", node: str | None = None, labels: Any = None, **spec: Any
    ) -> dict[str, Any]:
        """``level``: the name of a PriorityClass. Pods end at once when they are deleted, unless stated otherwise."""
        spec = {"terminationGracePeriodSeconds": 0, "priorityClassName": level, **spec}
        created = await create(self.client, PODS, pod_json(name, cpu=cpu, node=node, labels=labels, spec=spec))
        await until(lambda: self.engine.known_pods.get(f"default/{name}") is not None)
        return created

    async def live(self, name: str) -> dict[str, Any]:
        return await read(self.client, f"{PODS}/{name}")

    async def names(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in (await read(self.client, PODS))["items"]}

    def node_of(self, name: str) -> str:
        known = self.engine.known_pods.get(f"default/{name}")
        return "" if known is None else known.node_name

    def nominated(self, name: str) -> str:
        known = self.engine.known_pods.get(f"default/{name}")
        return "" if known is None else known.pod.nominated_node_name

    def is_tried(self, name: str) -> bool:
        """Whether an attempt at the pod has ended."""
        attempt = self.engine.attempt_of(f"default/{name}")
        return attempt is not None and bool(attempt.result)

    def is_gated(self, name: str) -> bool:
        record = self.engine.queue.find(f"default/{name}")
        return record is not None and record.is_gated

    async def settled(self) -> None:
        await until(lambda: self.shell.sink.open_writes == 0)


async def priority_classes(client: ApiClient) -> None:
    for name, value in (("low", 1), ("mid", 50), ("high", 100)):
        document = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        await create(
            client, "/apis/scheduling.k8s.io/v1/priorityclasses", {"apiVersion": "scheduling.k8s.io/v1", **document}
        )


Start = Callable[..., Any]


@pytest.fixture
async def start(connection: ConnectionSettings, client: ApiClient) -> Start:
    await priority_classes(client)

    @asynccontextmanager
    async def run(*plugins: type[Plugin], **sets: Any) -> AsyncIterator[Running]:
        if plugins:
            sets["multiPoint"] = {"enabled": [{"name": one.name} for one in plugins]}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "tandem-scheduler", "plugins": sets}],
        }
        loaded = load(msgspec.json.encode(document).decode())
        profiles = build_profiles(loaded, registry(plugins))
        engine = build_engine(loaded, started=read_clock(), seed=1, profiles=profiles)
        settings = quiet_settings(connection)
        async with running(Shell(settings, Parts(engine, gauges=GaugesOfEngine(engine)), {})) as shell:
            await until(lambda: engine.is_synced)
            yield Running(shell, engine, client)
            assert shell.loop.counts.errors == 0

    return run


@pytest.mark.parametrize("victims", [1, 2])
async def test_a_preemptor_is_gated_while_its_victims_are_removed_and_placed_then(
    start: Start, cluster: EmbeddedCluster, victims: int
) -> None:
    """Race 1, 2 of preemption with everything else."""
    async with start() as running:
        await running.node()
        for number in range(victims):
            await running.pod(f"low{number}", str(4 // victims), level="low", node="n")
        cluster.faults.delay("DELETE", "/pods/low", 0.5, times=victims)
        await running.pod("high", "4", level="high")
        await until(lambda: running.is_tried("high"))
        running.shell.inbox.put(PodsActivated(["default/high"]))
        await until(lambda: running.is_gated("high"))
        assert running.node_of("high") == ""
        await until(lambda: running.node_of("high") == "n")
        await running.settled()
        assert await running.names() == {"high"}
        assert running.engine.room.times["success"].count == 1


@pytest.mark.parametrize("kind", ["resources", "a filter of one's own"])
async def test_victims_get_their_condition_and_the_preemptor_its_nomination(start: Start, kind: str) -> None:
    """Race 3 of preemption with everything else."""
    plugin = scripted("OneEach", filter=lambda pod, node: None)
    plugin.filter_one = lambda self, state, pod, node, there: (  # type: ignore[attr-defined]
        unschedulable("taken") if there.pods else None
    )
    is_own = kind != "resources"
    async with start(*([plugin] if is_own else [])) as running:
        await running.node()
        cpu = "100m" if is_own else "4"
        before = await running.pod("low", cpu, level="low", node="n", terminationGracePeriodSeconds=GRACE)
        await running.pod("high", cpu, level="high")
        await until(lambda: running.nominated("high") == "n")
        await until(lambda: running.engine.room.times["success"].count == 1)
        await running.settled()
        low = await running.live("low")
        assert low["metadata"]["deletionTimestamp"]
        (condition,) = [one for one in low["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert low["status"]["qosClass"] == before["status"]["qosClass"]
        assert running.node_of("high") == ""


async def test_a_refusal_that_no_eviction_changes_means_no_preemption(start: Start) -> None:
    """Race 4 of preemption with everything else."""
    async with start(scripted("Refuses", filter=lambda pod, node: unresolvable("never"))) as running:
        await running.node()
        await running.pod("low", "4", level="low", node="n")
        await running.pod("high", "4", level="high")
        await until(lambda: running.is_tried("high"))
        await running.settled()
        assert await running.names() == {"low", "high"}
        assert "nominatedNodeName" not in (await running.live("high"))["status"]


@pytest.mark.parametrize(("level", "dies"), [("low", True), ("high", False)])
async def test_anti_affinity_removes_just_the_pod_in_conflict_if_it_is_less_important(
    start: Start, level: str, dies: bool
) -> None:
    """Race 5 of preemption with everything else."""
    conflict = affinity_json(anti_required=[pod_term({"app": "high"})])
    async with start() as running:
        await running.node()
        await running.pod("bystander", "1", level="low", node="n")
        await running.pod("conflicting", "1", level=level, node="n", affinity=conflict)
        await running.pod("high", "1", level="high", labels={"app": "high"})
        await until(lambda: running.node_of("high") == "n" if dies else running.is_tried("high"))
        await running.settled()
        assert await running.names() == {"bystander", "high"} | (set() if dies else {"conflicting"})


@pytest.mark.parametrize("how", ["never", "disabled"])
async def test_a_pod_that_must_not_preempt_waits(start: Start, how: str) -> None:
    """Race 6 of preemption with everything else."""
    sets = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}} if how == "disabled" else {}
    async with start(**sets) as running:
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        patient = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 100}
        patient |= {"metadata": {"name": "patient"}, "preemptionPolicy": "Never"}
        await create(running.client, classes, patient)
        await running.node()
        await running.pod("low", "4", level="low", node="n")
        await running.pod("high", "4", level="patient" if how == "never" else "high")
        await until(lambda: running.is_tried("high"))
        await running.settled()
        assert await running.names() == {"low", "high"}
        high = await running.live("high")
        assert "nominatedNodeName" not in high["status"]
        (condition,) = [one for one in high["status"]["conditions"] if one["type"] == "PodScheduled"]
        assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert ("not eligible due to preemptionPolicy=Never." in condition["message"]) is (how == "never")


async def test_the_priority_is_that_of_the_class_and_an_unknown_class_is_refused(start: Start) -> None:
    """Race 7 of preemption with everything else."""
    async with start() as running:
        await running.node()
        await running.pod("low", "4", level="low", node="n")
        created = await running.pod("mid", "4", level="mid")
        assert created["spec"]["priority"] == 50
        await until(lambda: running.node_of("mid") == "n")
        with pytest.raises(ApiError) as refused:
            await running.pod("odd", "4", level="unknown-level")
        assert refused.value.status == 403
        assert "no PriorityClass with name unknown-level was found" in str(refused.value)
