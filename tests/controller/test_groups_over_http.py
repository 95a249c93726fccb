"""Groups of pods over real HTTP: watched, bound together, and reported in status, journal and metrics."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web
from prometheus_client.exposition import generate_latest

from scheduler.cli.shell_settings import kinds_read
from scheduler.compose import build_engine
from scheduler.config.feature_gates import FeatureGates, parse_feature_gates
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.run import Shell
from scheduler.controller.serve import pages
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.engine.engine import Engine
from scheduler.engine.explain import PreemptionMemory
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import CONFIGURATION, quiet_settings, running

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
GATES = parse_feature_gates("GenericWorkload=true,GangScheduling=true")


@asynccontextmanager
async def scheduling(
    connection: ConnectionSettings, journal: Path, gates: FeatureGates = GATES
) -> AsyncIterator[tuple[Engine, Shell]]:
    engine = build_engine(load(CONFIGURATION, gates=gates), started=read_clock(), seed=1)
    settings = quiet_settings(connection, kinds=kinds_read(gates), journal=journal)
    async with running(Shell(settings, Parts(engine), {})) as shell:
        await until(lambda: engine.is_synced)
        yield engine, shell


def gang(min_count: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    }


async def add_members(client: ApiClient, *names: str) -> None:
    for name in names:
        await create(client, PODS, pod_json(name, spec={"schedulingGroup": {"podGroupName": "g"}}))


async def condition_of(client: ApiClient) -> tuple[str, str] | None:
    conditions = (await read(client, f"{GROUPS}/g")).get("status", {}).get("conditions", [])
    return (conditions[0]["status"], conditions[0]["reason"]) if conditions else None


async def test_a_gang_waits_for_its_last_pod_and_then_starts(
    connection: ConnectionSettings, client: ApiClient, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    await create(client, "/api/v1/nodes", node_json("n1"))
    async with scheduling(connection, journal) as (engine, shell):
        await create(client, GROUPS, gang(3))
        await add_members(client, "a", "b")
        await until(lambda: engine.queue.pending_counts()["gated"] == 2)
        assert await condition_of(client) is None
        await add_members(client, "c")
        await until(lambda: len(engine.cache.groups.members("default/g").placed) == 3)
        await until(lambda: (group := engine.cache.groups.get("default/g")) is not None and group.scheduled is not None)
        assert await condition_of(client) == ("True", "Scheduled")
        page = generate_latest(shell.metrics.registry).decode()
        labels = '{profile="tandem-scheduler",result="scheduled"}'
        assert f"scheduler_podgroup_schedule_attempts_total{labels} 1.0" in page.replace(
            '{result="scheduled",profile="tandem-scheduler"}', labels
        )
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(line["result"], line["found"]) for line in lines if "group" in line] == [("scheduled", 3)]
    assert sorted(line["pod"] for line in lines if "pod" in line) == ["default/a", "default/b", "default/c"]


async def test_autoscalers_see_every_member_of_a_gang_that_does_not_fit_as_unschedulable(
    connection: ConnectionSettings, client: ApiClient, tmp_path: Path
) -> None:
    """Those that found a place too: a node for the others alone would not do."""
    await create(client, "/api/v1/nodes", node_json("n1"))
    names = [f"p{number}" for number in range(6)]
    async with scheduling(connection, tmp_path / "journal") as (engine, _):
        await create(client, GROUPS, gang(6))
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
        for name in names:
            member = pod_json(name, containers=containers, spec={"schedulingGroup": {"podGroupName": "g"}})
            await create(client, PODS, member)

        async def reasons() -> list[str]:
            found = [(await read(client, f"{PODS}/{name}"))["status"].get("conditions") or [] for name in names]
            return [one["reason"] for each in found for one in each if one["type"] == "PodScheduled"]

        await until(lambda: sum(bool(info.pod.status.conditions) for info in engine.known_pods) == 6)
        assert await reasons() == ["Unschedulable"] * 6


async def test_the_pages_say_how_many_of_how_many_are_there(
    connection: ConnectionSettings, client: ApiClient, tmp_path: Path
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    async with scheduling(connection, tmp_path / "journal") as (engine, _):
        await create(client, GROUPS, gang(3))
        await add_members(client, "a", "b")
        await until(lambda: engine.queue.pending_counts()["gated"] == 2)
        async with serving(engine) as url, ClientSession() as session:
            async with session.get(f"{url}/debug/why/default/g") as answer:
                why = await answer.json()
            async with session.get(f"{url}/debug/why/default/a") as answer:
                pod = await answer.json()
            async with session.get(f"{url}/debug/queue") as answer:
                queue = await answer.json()
            chosen = {query: await _groups_listed(session, f"{url}/debug/queue?{query}") for query in FILTERS}
    assert chosen == FILTERS
    counts = {"minCount": 3, "pods": 2, "onNodes": 0, "held": 0, "waiting": 2}
    assert counts.items() <= why.items()
    assert [member["message"] for member in why["members"]] == [
        "held back by GangScheduling: waiting for minCount pods from a gang to appear in scheduling queue"
    ] * 2
    assert pod["group"] == {"group": "default/g", **counts}
    assert queue["groups"] == [{"group": "default/g", **counts}]


FILTERS = {
    "namespace=default": ["default/g"],
    "namespace=other": [],
    "plugin=GangScheduling": ["default/g"],
    "plugin=NodeAffinity": [],
    "profile=tandem-scheduler": ["default/g"],
    "profile=another": [],
}
"""A filter of the queue's page, and the groups that it leaves."""


async def _groups_listed(session: ClientSession, url: str) -> list[str]:
    async with session.get(url) as answer:
        return [group["group"] for group in (await answer.json())["groups"]]


@asynccontextmanager
async def serving(engine: Engine) -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes(pages.routes(engine, read_clock, PreemptionMemory()))
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def test_the_extension_points_of_placements_are_measured(
    connection: ConnectionSettings, client: ApiClient, tmp_path: Path
) -> None:
    gates = parse_feature_gates("GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true")
    for zone in ("a", "b"):
        document = node_json(f"n-{zone}")
        document["metadata"]["labels"] = {"zone": zone}
        await create(client, "/api/v1/nodes", document)
    async with scheduling(connection, tmp_path / "journal", gates) as (engine, shell):
        spec = {**gang(2)["spec"], "schedulingConstraints": {"topology": [{"key": "zone"}]}}
        await create(client, GROUPS, {**gang(2), "spec": spec})
        await add_members(client, "a", "b")
        # The group's own record comes with the last of its members.
        await until(lambda: engine.group_reports.of("default/g") is not None)
        await until(lambda: "PlacementScore" in generate_latest(shell.metrics.registry).decode())
        page = generate_latest(shell.metrics.registry).decode()
    for point in ("PlacementGenerate", "PlacementScore"):
        name = "scheduler_framework_extension_point_duration_seconds_count"
        labels = f'{{extension_point="{point}",profile="tandem-scheduler",status="Success"}}'
        assert f"{name}{labels} 1.0" in page
