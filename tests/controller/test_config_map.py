"""A watched ConfigMap that is not there when the scheduler starts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.config_map import report_absence
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.reload import Build
from scheduler.controller.run import Shell
from scheduler.controller.settings import OperatorOptions
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.errors import ConfigurationError
from scheduler.messages.references import PodReference
from scheduler.simulate.apiserver.kinds import EVENTS
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.conftest import create, read, until
from tests.controller.running import CONFIGURATION, quiet_settings, running

WATCHED = OperatorOptions(config_map_namespace="default", config_map_name="tandem")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def refused(_: bytes) -> Build:
    raise ConfigurationError(())


@asynccontextmanager
async def watching(connection: ConnectionSettings) -> AsyncIterator[Shell]:
    engine = build_engine(load(CONFIGURATION), started=read_clock(), seed=1)
    own_pod = PodReference("default", "tandem-0", "uid-0")
    settings = quiet_settings(connection, operator=WATCHED, own_pod=own_pod)
    async with running(Shell(settings, Parts(engine, prepare=refused), {})) as shell:
        yield shell


def absences(log_lines: list[dict[str, Any]]) -> list[str]:
    return [line["origin"] for line in log_lines if line["event"].startswith("ConfigMap is not there")]


async def test_a_config_map_that_is_not_there_is_a_warning_and_an_event(
    cluster: EmbeddedCluster, connection: ConnectionSettings, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    await create(client, CONFIG_MAPS, {"metadata": {"name": "another"}, "data": {"config.yaml": ""}})
    async with watching(connection):
        await until(lambda: bool(cluster.store.list(EVENTS, "default")))
    assert absences(log_lines) == ["ConfigMap default/tandem"]
    (event,) = (await read(client, "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    assert (event["type"], event["reason"]) == ("Warning", "ConfigurationGone")
    assert event["note"] == "ConfigMap default/tandem is not there, the configuration stays as it is"


async def test_one_that_is_there_is_none(client: ApiClient) -> None:
    await create(client, CONFIG_MAPS, {"metadata": {"name": "tandem"}, "data": {"config.yaml": ""}})
    absent: list[str] = []
    await report_absence(client, WATCHED, lambda: absent.append("absent"))
    assert absent == []


async def test_it_is_looked_for_until_the_api_server_answers_and_a_missing_right_ends_that(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    absent: list[str] = []
    cluster.faults.fail("GET", "/configmaps", 503)
    await report_absence(client, WATCHED, lambda: absent.append("absent"))
    assert absent == ["absent"]
    cluster.faults.fail("GET", "/configmaps", 403)
    await report_absence(client, WATCHED, lambda: absent.append("absent"))
    assert absent == ["absent"]
