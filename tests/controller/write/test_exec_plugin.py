"""Exec plugins of a kubeconfig: what they give, and the limits of their time and of what they print."""

from __future__ import annotations

import asyncio
import datetime
import gc
import os
import signal
import stat
from pathlib import Path

import msgspec
import pytest

from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import (
    CredentialSource,
)
from scheduler.controller.write.kubeconfig_library import read_kubeconfig
from scheduler.errors import ConfigurationError
from tests.controller.write.test_credentials import kubeconfig, load
from tests.limits import WAIT_SECONDS


async def test_an_exec_plugin_is_run(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    version = "client.authentication.k8s.io/v1"
    credential = f'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {{"token": "from-plugin"}}}}'
    plugin.write_text(f"#!/bin/sh\necho '{credential}'\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    execution = {"apiVersion": version, "command": str(plugin)}
    found = await load(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", exec=execution)))
    assert found.authorization == "Bearer from-plugin"


async def test_an_exec_plugin_that_is_not_there_is_named(tmp_path: Path) -> None:
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}
    with pytest.raises(ConfigurationError, match=r"exec: no-such-plugin can't be run: No such file or directory"):
        await load(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", exec=execution)))


def hanging(folder: Path) -> tuple[str, Path]:
    """A kubeconfig whose plugin never answers, and the file with the plugin's process id."""
    plugin, started = folder / "plugin", folder / "started"
    plugin.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 1000\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    return kubeconfig(folder / "k", exec=execution), started


async def test_an_exec_plugin_that_hangs_is_killed_after_its_time_and_named(tmp_path: Path) -> None:
    path, started = hanging(tmp_path)
    source = CredentialSource(ConnectionSettings(kubeconfig=path), {}, plugin_seconds=1.0)
    with pytest.raises(ConfigurationError, match=r"plugin has given no credentials within 1 seconds, and was stopped"):
        await source.load()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.parametrize(
    ("script", "message", "longest"),
    [
        ("yes | head -c 5000000", "the answer has more than 1048576 bytes", 1000),
        ("yes | head -c 5000000 >&2; exit 3", "process returned 3. y", 10_000),
    ],
)
async def test_what_an_exec_plugin_prints_has_a_limit(tmp_path: Path, script: str, message: str, longest: int) -> None:
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
    with pytest.raises(ConfigurationError, match=message) as caught:
        await load(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", exec=execution)))
    assert len(str(caught.value)) < longest


@pytest.mark.parametrize("attempt", range(8))
async def test_a_plugin_whose_child_holds_its_output_open_is_given_up_at_once_and_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, attempt: int
) -> None:
    plugin, child = tmp_path / "plugin", tmp_path / "child"
    plugin.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {child}\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    settings = ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", exec=execution))
    load = asyncio.create_task(CredentialSource(settings, {}, plugin_seconds=60.0).load())
    # The later attempts leave the loop more turns between the plugin's start and the end of the wait for it.
    async with asyncio.timeout(WAIT_SECONDS):
        while not (child.exists() and child.read_text() != ""):  # noqa: ASYNC110 - each turn counts
            await asyncio.sleep(0)
    for _turn in range(attempt):
        await asyncio.sleep(0)
    load.cancel()
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.wait([load])
    assert load.cancelled()
    del load
    gc.collect()
    os.kill(int(child.read_text()), signal.SIGTERM)
    assert caplog.messages == []


async def test_requests_that_waited_for_a_plugin_in_vain_do_not_each_wait_for_another(tmp_path: Path) -> None:
    path, started = hanging(tmp_path)
    client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=path), {}, plugin_seconds=1.0))
    first, second = asyncio.create_task(client.connect()), asyncio.create_task(client.connect())
    with pytest.raises(ConfigurationError):
        await first
    ran = started.read_text()
    with pytest.raises(ConfigurationError):
        await second
    assert started.read_text() == ran
    await client.close()


async def test_a_certificate_of_an_exec_plugin_is_used_until_it_expires(tmp_path: Path) -> None:
    version, answer = "client.authentication.k8s.io/v1", tmp_path / "answer"
    given = {
        "clientCertificateData": "certificate",
        "clientKeyData": "key",
        "expirationTimestamp": "2026-01-01T00:00:00Z",
    }
    answer.write_bytes(msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "status": given}))
    execution = {"apiVersion": version, "command": "cat", "args": [str(answer)]}
    found, expiry = await read_kubeconfig(kubeconfig(tmp_path / "k", "https://api.example", exec=execution), "")
    assert (found.certificate, found.key, found.token) == (b"certificate", b"key", "")
    assert expiry == datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
