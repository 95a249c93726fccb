"""Kinds that can not be listed: without the right, not served, or answered with something else than a list."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.controller.watch.health import Health
from scheduler.controller.write.client import ApiClient
from scheduler.objects.kinds import Kind
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json
from tests.controller.conftest import create, until
from tests.controller.watch.reflecting import running


async def test_a_missing_right_is_reported_once_and_the_kind_stays_unsynced(
    cluster: EmbeddedCluster, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    cluster.faults.fail("GET", "/api/v1/pods", 403, times=3, reason="Forbidden")
    async with running(client) as (reflector, _):
        await until(lambda: reflector.health is Health.FORBIDDEN)
        assert not reflector.synced.is_set()
        await until(reflector.synced.is_set)
        assert [line["event"] for line in log_lines if line["log_level"] == "error"] == ["missing right: list pods"]


DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


async def test_a_404_on_a_core_kind_is_a_fault_and_takes_nothing_away(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    async with running(client, Kind.NODE) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        cluster.faults.fail("GET", "/api/v1/nodes", 404, times=9, reason="NotFound")
        cluster.server.close_watches()
        await until(lambda: reflector.health is Health.UNREACHABLE)
        assert reflector.trouble == "injected fault"
        await until(lambda: not cluster.faults.rules and reflector.health is Health.WATCHING)
        assert seen.events == [("+", "n1")]
        assert list(reflector.known) == ["n1"]


async def test_a_404_before_the_first_list_keeps_the_kind_unsynced(cluster: EmbeddedCluster, client: ApiClient) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    cluster.faults.fail("GET", "/api/v1/nodes", 404, times=5, reason="NotFound")
    async with running(client, Kind.NODE) as (reflector, _):
        await until(lambda: reflector.health is Health.UNREACHABLE)
        assert not reflector.synced.is_set()
        await until(reflector.synced.is_set)
        assert list(reflector.known) == ["n1"]


async def test_an_optional_kind_that_discovery_does_not_list_is_as_good_as_empty(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    cluster.server.absent.add("deviceclasses.resource.k8s.io")
    async with running(client, Kind.DEVICE_CLASS) as (reflector, seen):
        await until(reflector.synced.is_set)
        await until(lambda: reflector.health is Health.MISSING_KIND)
        assert seen.events == []
        # An upgrade of the control plane brings it.
        cluster.server.absent.clear()
        await until(lambda: reflector.health is Health.WATCHING)
        await create(client, DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
        await until(lambda: seen.events == [("+", "gpu")])


async def test_an_optional_kind_that_is_taken_away_takes_its_objects_with_it(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    await create(client, DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
    async with running(client, Kind.DEVICE_CLASS) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        cluster.server.absent.add("deviceclasses.resource.k8s.io")
        cluster.server.close_watches()
        await until(lambda: seen.events == [("+", "gpu"), ("?", "gpu")])
        await until(lambda: reflector.health is Health.MISSING_KIND)


@pytest.mark.parametrize("code", [404, 503])
async def test_an_optional_kind_is_not_empty_on_the_word_of_its_own_path(
    cluster: EmbeddedCluster, client: ApiClient, code: int
) -> None:
    await create(client, DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
    async with running(client, Kind.DEVICE_CLASS) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        # The path is not found; discovery lists the kind at first and then does not answer in order.
        cluster.faults.fail("GET", "deviceclasses", 404, times=6, reason="NotFound")
        cluster.faults.fail("GET", "/apis$", code, times=2)
        cluster.faults.answer("GET", "/apis$", b'{"kind":"Status","metadata":{}}')
        cluster.server.close_watches()
        await until(lambda: not cluster.faults.rules and reflector.health is Health.WATCHING)
        assert seen.events == [("+", "gpu")]


@pytest.mark.parametrize("answer", [b"{}", b'{"kind":"Status","metadata":{}}', b"<html>not here</html>", b""])
async def test_an_answer_that_is_no_list_takes_nothing_away(
    cluster: EmbeddedCluster, client: ApiClient, answer: bytes
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    async with running(client, Kind.NODE) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        cluster.faults.fail("GET", "/api/v1/nodes.*watch=true", 410, reason="Expired")
        cluster.faults.answer("GET", "/api/v1/nodes", answer, times=3)
        cluster.server.close_watches()
        await until(lambda: not cluster.faults.rules and reflector.health is Health.WATCHING)
        assert seen.events == [("+", "n1")]


def lines_of(log_lines: list[dict[str, Any]], event: str) -> int:
    return len([line for line in log_lines if line["event"] == event])


async def test_after_an_outage_a_kind_that_is_not_served_is_not_waited_for(
    cluster: EmbeddedCluster, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    cluster.faults.drop("GET", DEVICE_CLASSES, times=1_000)
    async with running(client, Kind.DEVICE_CLASS) as (reflector, _):
        await until(lambda: lines_of(log_lines, "API server can't be watched, trying again") == 1)
        cluster.server.absent.add("deviceclasses.resource.k8s.io")
        cluster.faults.clear()
        await until(lambda: reflector.health is Health.MISSING_KIND)
        assert lines_of(log_lines, "API server answers again") == 1


async def test_after_an_outage_a_watch_that_goes_on_ends_it_as_a_list_does(
    cluster: EmbeddedCluster, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    async with running(client, Kind.NODE) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        cluster.faults.drop("GET", "^/api/v1/nodes", times=2)
        cluster.server.close_watches()
        await until(lambda: lines_of(log_lines, "API server can't be watched, trying again") == 1)
        await until(lambda: reflector.health is Health.WATCHING)
        await create(client, "/api/v1/nodes", node_json("n1"))
        await until(lambda: seen.events == [("+", "n1")])
        cluster.server.close_watches()
        await until(lambda: lines_of(log_lines, "API server answers again") == 1)
        assert reflector.relists == 0
