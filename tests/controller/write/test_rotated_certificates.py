"""Credentials that an exec plugin gives, new ones every few minutes."""

from __future__ import annotations

import datetime
import os
import shlex
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from scheduler.controller.write.client import ApiClient, Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import RETRY_SECONDS, CredentialSource
from scheduler.controller.write.kubeconfig_library import read_kubeconfig
from scheduler.errors import ConfigurationError
from tests.controller.conftest import until
from tests.controller.write.test_client import serving
from tests.controller.write.test_credentials import kubeconfig


async def test_each_new_certificate_of_an_exec_plugin_leaves_no_open_file_behind(tmp_path: Path) -> None:
    version, answer = "client.authentication.k8s.io/v1", tmp_path / "answer"
    execution = {"apiVersion": version, "command": "cat", "args": [str(answer)]}
    path = kubeconfig(tmp_path / "k", "https://api.example", exec=execution)
    open_files = []
    for number in range(3):
        given = {"clientCertificateData": f"certificate {number}", "clientKeyData": f"key {number}"}
        answer.write_bytes(msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "status": given}))
        found, _ = await read_kubeconfig(path, "")
        assert (found.certificate, found.key) == (f"certificate {number}".encode(), f"key {number}".encode())
        open_files.append(len(os.listdir("/dev/fd")))
    assert open_files[0] == open_files[-1]


async def test_the_certificate_of_an_exec_plugin_goes_before_that_of_the_user(tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1"
    given = {"clientCertificateData": "plugin's", "clientKeyData": "plugin's key"}
    answer = msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "status": given}).decode()
    execution = {"apiVersion": version, "command": "echo", "args": [answer]}
    others = {"client-certificate-data": "dXNlcidz", "client-key-data": "dXNlcidz"}
    path = kubeconfig(tmp_path / "k", "https://api.example", exec=execution, **others)
    found, _ = await read_kubeconfig(path, "")
    assert (found.certificate, found.key) == (b"plugin's", b"plugin's key")


@pytest.mark.parametrize(("seconds", "is_fresh_at", "is_stale_at"), [(240, 170, 190), (3600, 3290, 3310)])
async def test_credentials_that_live_for_minutes_are_not_fetched_every_few_seconds(
    tmp_path: Path, seconds: int, is_fresh_at: float, is_stale_at: float
) -> None:
    version = "client.authentication.k8s.io/v1"
    expiry = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    given = {"token": "secret", "expirationTimestamp": expiry.isoformat()}
    answer = msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "status": given}).decode()
    execution = {"apiVersion": version, "command": "echo", "args": [answer]}
    now = [0.0]
    settings = ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", exec=execution))
    source = CredentialSource(settings, {}, clock=lambda: now[0])
    await source.load()
    now[0] = is_fresh_at
    was_stale = source.is_stale
    now[0] = is_stale_at
    assert (was_stale, source.is_stale) == (False, True)


def expiring(token: str) -> str:
    """What a plugin prints that gives this token for an hour."""
    expiry = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    given = {"token": token, "expirationTimestamp": expiry.isoformat()}
    version = "client.authentication.k8s.io/v1"
    return msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "status": given}).decode()


async def test_a_plugin_that_fails_once_is_run_again_after_some_seconds(tmp_path: Path) -> None:
    answer, now = tmp_path / "answer", [0.0]
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [str(answer)]}
    settings = ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", exec=execution))
    source = CredentialSource(settings, {}, clock=lambda: now[0])
    answer.write_text(expiring("old"))
    await source.load()
    now[0] += 3500
    answer.unlink()
    with pytest.raises(ConfigurationError, match="process returned 1"):
        await source.load()
    was_stale = source.is_stale
    now[0] += RETRY_SECONDS
    assert (was_stale, source.is_stale) == (False, True)
    answer.write_text(expiring("new"))
    assert (await source.load()).authorization == "Bearer new"
    now[0] += 3000
    assert not source.is_stale


async def test_while_a_plugin_hangs_requests_go_on_with_the_old_token_and_closing_ends_it(
    tmp_path: Path, directly: Directly
) -> None:
    seen: list[str] = []
    ran, started, now = tmp_path / "ran", tmp_path / "started", [0.0]

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.Response()

    hang = f"if [ -e {ran} ]; then echo $$ > {started}.part; mv {started}.part {started}; exec sleep 1000; fi"
    script = f"{hang}; touch {ran}; echo {shlex.quote(expiring('old'))}"
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
    async with serving(handler) as url:
        settings = ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", url, exec=execution))
        client = ApiClient(CredentialSource(settings, {}, clock=lambda: now[0]), directly=directly)
        await client.request("GET", "/x")
        now[0] += 3500
        await client.request("GET", "/x")
        await until(started.exists)
        await client.request("GET", "/x")
        await client.close()
    assert seen == ["Bearer old"] * 3
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
