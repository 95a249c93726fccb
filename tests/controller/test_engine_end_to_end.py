"""The shipped engine in the shipped shell, in one process with the embedded API server."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.exposition import generate_latest

from scheduler.compose import all_plugins, build_engine, build_profiles
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.report.engine_gauges import GaugesOfEngine
from scheduler.controller.run import Shell
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.engine.attempt import Attempt
from scheduler.testing.documents import node_json, pod_json
from scheduler.user_plugins.calls import background_calls
from scheduler.user_plugins.loading import PluginClasses
from scheduler.user_plugins.sources import PluginSources
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import CONFIGURATION, quiet_settings, running

ROOT = Path(__file__).parents[2]

GUARDED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: tandem-scheduler
  plugins: {permit: {enabled: [{name: Doorkeeper}]}}
---
apiVersion: tandem.scheduling/v1alpha1
kind: TandemConfiguration
plugins: [{name: Doorkeeper, path: "tests.user_plugins.samples:Doorkeeper"}]
"""


async def test_a_permit_plugins_background_part_lets_waiting_pods_in_and_sends_others_back(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    configuration = load(GUARDED)
    profiles = build_profiles(configuration, all_plugins(configuration, PluginClasses(PluginSources(ROOT))))
    engine = build_engine(configuration, started=read_clock(), seed=1, profiles=profiles)
    messages: list[str] = []
    calls = background_calls(profiles, lambda: ApiClient(CredentialSource(connection, {})))

    def observe(attempt: Attempt) -> None:
        messages.append(attempt.message)

    parts = Parts(engine, gauges=GaugesOfEngine(engine), background=calls, observers=(observe,))
    async with running(Shell(quiet_settings(connection), parts, {})):
        await create(client, "/api/v1/nodes", node_json("n1"))
        for door in ("open", "shut", "ajar"):
            await create(client, PODS, pod_json(door, labels={"door": door}))
        await until(lambda: (found := engine.known_pods.get("default/open")) is not None and found.node_name == "n1")
        await until(lambda: any("the door is shut" in message for message in messages))
        assert "ajar" in [one.pod.name for one in engine.waiting_pods("Doorkeeper")]
        assert "nodeName" not in (await read(client, f"{PODS}/ajar"))["spec"]


async def test_pods_get_nodes_conditions_and_events(connection: ConnectionSettings, client: ApiClient) -> None:
    engine = build_engine(load(CONFIGURATION), started=read_clock(), seed=1)
    gauges = GaugesOfEngine(engine)
    async with running(Shell(quiet_settings(connection), Parts(engine, gauges=gauges), {})) as shell:
        for name in ("n1", "n2"):
            await create(client, "/api/v1/nodes", node_json(name))
        await until(lambda: gauges.cache_counts()["nodes"] == 2)
        for name in ("a", "b", "c"):
            await create(client, PODS, pod_json(name, cpu="3"))
        await until(lambda: gauges.pending_counts()["unschedulable"] == 1 and gauges.cache_counts()["pods"] == 2)
        await until(lambda: shell.sink.open_writes == 0 and shell.events.counts.written == 3)
        pods = {pod["metadata"]["name"]: pod for pod in (await read(client, PODS))["items"]}
        assert sorted(pod["spec"].get("nodeName", "") for pod in pods.values()) == ["", "n1", "n2"]
        (waiting,) = [pod for pod in pods.values() if "nodeName" not in pod["spec"]]
        status = (await read(client, f"{PODS}/{waiting['metadata']['name']}"))["status"]
        (condition,) = [one for one in status["conditions"] if one["type"] == "PodScheduled"]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
        await until(lambda: gauges.cache_counts() == {"nodes": 2, "pods": 2, "assumed_pods": 0})
        assert shell.loop.counts.errors == 0
        page = generate_latest(shell.metrics.registry).decode()
        assert 'duration_seconds_count{extension_point="Bind",profile="tandem-scheduler",status="Success"} 2.0' in page
