"""What plugins write is fenced by the Lease and settled at the end, over the wiring of ``tandem run``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.cli.flags import read_flags
from scheduler.cli.prepare import prepare
from scheduler.cli.run import parts_of
from scheduler.compose import build_engine
from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.loop import read_clock
from scheduler.controller.run import Shell
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.errors import ApiError
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.running import CONFIGURATION, quiet_settings, running
from tests.hostile.test_shell import page_of

MAPS = "/api/v1/namespaces/default/configmaps"
BEGUN, MAY_GO_ON, WRITTEN = "begun", "may-go-on", "written"
SOURCE = f'''
import asyncio
import json

from scheduler.plugin import SKIP, ApiError, BackgroundPlugin, BindPlugin, PermitPlugin, PreBindPlugin, PreFlight

MAPS = "{MAPS}"
MAY_GO_ON = asyncio.Event()


async def write(client, name):
    body = json.dumps({{"metadata": {{"name": name}}}}).encode()
    await client.request("POST", MAPS, body=body)


async def write_twice(client):
    """What a plugin does when it writes, waits for something outside, and writes again."""
    await write(client, "{BEGUN}")
    await MAY_GO_ON.wait()
    try:
        await write(client, "{WRITTEN}")
    except ApiError:
        pass


class Before(PreBindPlugin):
    name = "Before"

    def pre_bind_pre_flight(self, state, pod, view, node):
        return PreFlight()

    async def pre_bind(self, context):
        await write_twice(context.client)


class Binder(BindPlugin):
    name = "Binder"

    async def bind(self, context):
        await write_twice(context.client)
        return SKIP


class Aside(PermitPlugin, BackgroundPlugin):
    name = "Aside"

    def permit(self, state, pod, view, node):
        return None

    async def run(self, handle):
        await write_twice(handle.client)
'''
PLUGINS = {
    "Before": "{preBind: {enabled: [{name: Before}]}}",
    "Binder": "{bind: {enabled: [{name: Binder}], disabled: [{name: DefaultBinder}]}}",
    "Aside": "{permit: {enabled: [{name: Aside}]}}",
}


@asynccontextmanager
async def shell_with(
    plugin: str, connection: ConnectionSettings, folder: Path
) -> AsyncIterator[tuple[Shell, asyncio.Event]]:
    """``tandem run`` with one of the plugins above, and the event that it waits for between its writes."""
    # A module of its own for each test: a process imports a module once, with the event that another test has set.
    module = f"{plugin.lower()}_of_{folder.name}"
    (folder / "plugins").mkdir()
    (folder / "plugins" / f"{module}.py").write_text(SOURCE)
    (folder / "config.yaml").write_text(
        CONFIGURATION.replace("tandem-scheduler}]", f"tandem-scheduler, plugins: {PLUGINS[plugin]}}}]")
        + "---\napiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
        + f"plugins: [{{name: {plugin}, path: '{module}:{plugin}'}}]\n"
    )
    flags = read_flags([f"--config={folder / 'config.yaml'}", f"--plugin-folder={folder / 'plugins'}"])
    prepared = prepare(flags)
    settings = quiet_settings(connection, leader_election=LeaderElectionSettings())
    engine = build_engine(prepared.configuration, started=read_clock(), seed=1, profiles=prepared.profiles)
    parts = parts_of(engine, replace(prepared, settings=settings), flags)
    async with running(Shell(settings, parts, {})) as shell:
        made: Any = __import__(module)
        yield shell, made.MAY_GO_ON


async def is_there(client: ApiClient, name: str) -> bool:
    try:
        await read(client, f"{MAPS}/{name}")
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


async def until_begun(client: ApiClient) -> None:
    while not await is_there(client, BEGUN):  # noqa: ASYNC110 - no event announces it
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("plugin", PLUGINS)
async def test_nothing_that_a_plugin_writes_leaves_once_the_lease_is_lost(
    plugin: str, connection: ConnectionSettings, client: ApiClient, tmp_path: Path, log_lines: list[dict[str, Any]]
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1", cpu="4"))
    async with shell_with(plugin, connection, tmp_path) as (shell, may_go_on):
        await create(client, PODS, pod_json("a"))
        await until_begun(client)
        assert shell.token is not None
        shell.token.revoke()
        may_go_on.set()
        if plugin == "Aside":
            await until(lambda: "Plugin failed" in [line["event"] for line in log_lines])
        else:
            await until(lambda: 'result="error"} 1.0' in page_of(shell))
            assert "nodeName" not in (await read(client, f"{PODS}/a"))["spec"]
        assert not await is_there(client, WRITTEN)


@pytest.mark.parametrize("plugin", ["Before", "Binder"])
async def test_what_a_plugin_has_begun_is_waited_for_at_the_end(
    plugin: str, connection: ConnectionSettings, client: ApiClient, tmp_path: Path
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1", cpu="4"))
    async with shell_with(plugin, connection, tmp_path) as (shell, may_go_on):
        await create(client, PODS, pod_json("a"))
        await until_begun(client)
        assert shell.sink.open_writes == 1
        shell.loop.stop_popping()
        settling = asyncio.create_task(shell.sink.settle(30.0))
        await asyncio.sleep(0)
        assert not settling.done()
        may_go_on.set()
        assert await settling
        assert await is_there(client, WRITTEN)
