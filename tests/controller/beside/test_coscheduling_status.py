"""The status of PodGroups of scheduler-plugins, kept over real HTTP in place of that project's controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler.cli.shell_settings import kinds_read
from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.beside.coscheduling_status import REPEAT_SECONDS, CoschedulingStatuses
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.run import Shell
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.messages.commands import PatchGroupCounts, WriteEvent
from scheduler.messages.now import Now
from scheduler.objects.coscheduling import PodGroup
from scheduler.objects.kinds import Kind, decode_as
from scheduler.simulate.apiserver import kinds as served
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import until
from tests.controller.running import CONFIGURATION, quiet_settings, running

ENABLED = """
---
apiVersion: tandem.scheduling/v1alpha1
kind: TandemConfiguration
groups: {coscheduling: {enabled: true}}
"""
GROUPS = served.COSCHEDULING_POD_GROUPS
LABEL = "scheduling.x-k8s.io/pod-group"
OWNERS = [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job", "controller": True}]


@asynccontextmanager
async def keeping(connection: ConnectionSettings, *, keeps: bool = True, **stated: Any) -> AsyncIterator[Shell]:
    configuration = load(CONFIGURATION + ENABLED)
    engine = build_engine(configuration, started=read_clock(), seed=1)
    kinds = kinds_read(configuration.gates, configuration.tandem)
    settings = quiet_settings(connection, kinds=kinds, keeps_group_counts=keeps, **stated)
    async with running(Shell(settings, Parts(engine), {})) as shell:
        await until(lambda: engine.is_synced)
        yield shell


def add_group(cluster: EmbeddedCluster, minimum: int = 2) -> None:
    cluster.registry.create(GROUPS, "default", {"metadata": {"name": "g"}, "spec": {"minMember": minimum}})


def add_pods(cluster: EmbeddedCluster, *names: str) -> None:
    for name in names:
        document = pod_json(name, cpu="1", labels={LABEL: "g"})
        document["metadata"]["ownerReferences"] = OWNERS
        cluster.registry.create(served.PODS, "default", document)


def become(cluster: EmbeddedCluster, phase: str, *names: str) -> None:
    """What a kubelet says of these pods."""
    for name in names:
        cluster.registry.change(
            served.PODS, "default", name, lambda old: {**old, "status": {**old["status"], "phase": phase}}
        )


def status(cluster: EmbeddedCluster) -> dict[str, Any]:
    found = cluster.store.get(GROUPS, "default", "g")
    assert found is not None
    return dict(found.get("status") or {})


def counts(cluster: EmbeddedCluster) -> tuple[str, int, int, int]:
    found = status(cluster)
    return found.get("phase", ""), found.get("running", 0), found.get("succeeded", 0), found.get("failed", 0)


def group_writes(cluster: EmbeddedCluster) -> int:
    return sum(one.method == "PATCH" and "/podgroups/g/status" in one.path for one in cluster.server.served)


async def test_a_group_goes_through_its_phases(cluster: EmbeddedCluster, connection: ConnectionSettings) -> None:
    cluster.registry.create(served.NODES, "", node_json("n", cpu="4"))
    add_group(cluster)
    async with keeping(connection):
        await until(lambda: counts(cluster) == ("Pending", 0, 0, 0))
        assert "scheduleStartTime" not in status(cluster)
        add_pods(cluster, "a", "b", "c")
        await until(lambda: counts(cluster) == ("Scheduling", 0, 0, 0))
        assert status(cluster)["occupiedBy"] == "default/train"
        began = status(cluster)["scheduleStartTime"]
        become(cluster, "Running", "a", "b")
        await until(lambda: counts(cluster) == ("Running", 2, 0, 0))
        become(cluster, "Succeeded", "a")
        await until(lambda: counts(cluster) == ("Running", 1, 1, 0))
        become(cluster, "Succeeded", "b")
        await until(lambda: counts(cluster) == ("Finished", 0, 2, 0))
        assert status(cluster)["scheduleStartTime"] == began
        written = group_writes(cluster)
        become(cluster, "Failed", "c")
        add_group_neighbour(cluster)
        await until(lambda: neighbour_phase(cluster) == "Pending")
        assert (counts(cluster), group_writes(cluster)) == (("Finished", 0, 2, 0), written), "the phase is final"


def add_group_neighbour(cluster: EmbeddedCluster) -> None:
    cluster.registry.create(GROUPS, "default", {"metadata": {"name": "neighbour"}, "spec": {"minMember": 1}})


def neighbour_phase(cluster: EmbeddedCluster) -> str:
    found = cluster.store.get(GROUPS, "default", "neighbour")
    assert found is not None
    return str((found.get("status") or {}).get("phase", ""))


async def test_a_failed_pod_of_a_group_that_has_begun_fails_it(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    add_group(cluster)
    add_pods(cluster, "a", "b")
    become(cluster, "Failed", "a")
    async with keeping(connection):
        await until(lambda: counts(cluster) == ("Scheduling", 0, 0, 1))
        become(cluster, "Running", "b")
        await until(lambda: counts(cluster) == ("Failed", 1, 0, 1))


async def test_a_group_that_loses_pods_is_pending_again(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    add_group(cluster)
    add_pods(cluster, "a", "b")
    become(cluster, "Running", "a", "b")
    async with keeping(connection):
        await until(lambda: counts(cluster) == ("Running", 2, 0, 0))
        cluster.store.remove(served.PODS, "default", "b")
        await until(lambda: counts(cluster) == ("Pending", 1, 0, 0))


async def test_many_changes_become_few_writes(cluster: EmbeddedCluster, connection: ConnectionSettings) -> None:
    add_group(cluster, minimum=50)
    async with keeping(connection):
        names = [f"p{number}" for number in range(50)]
        add_pods(cluster, *names)
        for name in names:
            become(cluster, "Running", name)
        await until(lambda: counts(cluster) == ("Running", 50, 0, 0))
        assert group_writes(cluster) <= 3


async def test_a_write_that_was_lost_is_made_again_while_another_group_never_rests() -> None:
    groups = {
        f"default/{name}": decode_as(
            PodGroup, json.dumps({"metadata": {"name": name, "namespace": "default"}}).encode()
        )
        for name in ("busy", "idle")
    }
    time = 0.0
    written: list[str] = []

    def submit(command: PatchGroupCounts | WriteEvent) -> None:
        assert isinstance(command, PatchGroupCounts)
        written.append(command.group.name)
        # Nothing comes of it, and the busy group changes once more.
        statuses.group_changed("default/busy")

    statuses = CoschedulingStatuses(lambda: groups, submit, lambda: True, lambda: Now(time, 0))
    keeping = asyncio.create_task(statuses.run())
    await until(lambda: sorted(written) == ["busy", "idle"])
    time = REPEAT_SECONDS
    await until(lambda: written.count("idle") == 2)
    keeping.cancel()


async def test_while_another_scheduler_leads_no_group_that_changes_is_remembered_by_itself() -> None:
    statuses = CoschedulingStatuses(dict, lambda _: None, lambda: False, lambda: Now(0.0, 0))
    for number in range(100):
        statuses.group_changed(f"default/before-{number}")
    keeping = asyncio.create_task(statuses.run())
    await asyncio.sleep(0)
    for number in range(100):
        statuses.group_changed(f"default/meanwhile-{number}")
    assert not statuses._changed
    keeping.cancel()


async def test_a_group_that_took_two_days_is_reported_once(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    add_group(cluster)

    def long_ago(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "metadata": {**old["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}}

    cluster.registry.change(GROUPS, "default", "g", long_ago)
    add_pods(cluster, "a", "b")
    async with keeping(connection):
        await until(lambda: counts(cluster)[0] == "Scheduling")
        await until(lambda: bool(overdue_events(cluster)))
        become(cluster, "Running", "a")
        await until(lambda: counts(cluster)[1] == 1)
    assert [one["involvedObject"]["name"] for one in overdue_events(cluster)] == ["g"]


def overdue_events(cluster: EmbeddedCluster) -> list[dict[str, Any]]:
    found = cluster.store.list(served.EVENTS, "default")
    return [
        one for one in found if one["reason"] == "Timeout" and one["message"] == "schedule time longer than 48 hours"
    ]


@pytest.mark.parametrize("settings", [{"keeps": False}, {"is_shadow": True}], ids=["as configured", "in shadow mode"])
async def test_the_status_of_others_is_left_alone(
    cluster: EmbeddedCluster, connection: ConnectionSettings, settings: dict[str, Any]
) -> None:
    cluster.registry.create(served.NODES, "", node_json("n", cpu="4"))
    add_group(cluster)
    async with keeping(connection, **settings) as shell:
        add_pods(cluster, "a", "b")
        await until(lambda: shell.known.all(Kind.COSCHEDULING_POD_GROUP).keys() == {"default/g"})
        await until(lambda: len(shell.known.all(Kind.POD)) == 2)
        assert shell.labelled_pods is None
    assert status(cluster) == {} and group_writes(cluster) == 0
