"""Credentials from files, and the proxies that lead to the server."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import TOKEN_LIFE_SECONDS, Credentials, CredentialSource
from scheduler.controller.write.proxies import proxy_for
from scheduler.errors import ConfigurationError


def kubeconfig(path: Path, server: str = "http://api.example:8080", **user: object) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "none", "context": {"cluster": "elsewhere", "user": "u"}},
        ],
    }
    path.write_bytes(msgspec.yaml.encode(config))
    return str(path)


async def load(settings: ConnectionSettings, environment: dict[str, str] | None = None) -> Credentials:
    return await CredentialSource(settings, environment or {}, token_path="/nowhere").load()


async def test_a_token_in_the_kubeconfig_becomes_a_header(tmp_path: Path) -> None:
    found = await load(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", token="secret")))
    assert found.server == "http://api.example:8080"
    assert found.authorization == "Bearer secret"
    assert found.ssl_context is None


async def test_master_overrides_the_server(tmp_path: Path) -> None:
    settings = ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k"), master="https://other:6443/")
    found = await load(settings)
    assert found.server == "https://other:6443"
    assert found.ssl_context is not None


async def test_the_order_is_flag_then_cluster_then_environment_then_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    kubeconfig(home / ".kube" / "config", "http://home")
    listed = kubeconfig(tmp_path / "listed", "http://listed")
    flag = kubeconfig(tmp_path / "flag", "http://flag")
    everything = {"HOME": str(home), "KUBECONFIG": f"/nowhere:{listed}"}
    assert (await load(ConnectionSettings(kubeconfig=flag), everything)).server == "http://flag"
    assert (await load(ConnectionSettings(), everything)).server == "http://listed"
    assert (await load(ConnectionSettings(), {"HOME": str(home)})).server == "http://home"


async def test_an_exec_plugin_is_run(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    version = "client.authentication.k8s.io/v1"
    credential = f'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {{"token": "from-plugin"}}}}'
    plugin.write_text(f"#!/bin/sh\necho '{credential}'\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    execution = {"apiVersion": version, "command": str(plugin)}
    found = await load(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", exec=execution)))
    assert found.authorization == "Bearer from-plugin"


async def test_a_token_file_is_read_again_when_it_may_have_been_rotated(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    now = [0.0]
    path = kubeconfig(tmp_path / "k", tokenFile=str(token))
    source = CredentialSource(ConnectionSettings(kubeconfig=path), {}, clock=lambda: now[0])
    assert (await source.load()).authorization == "Bearer old"
    token.write_text("new\n")
    was_stale = source.is_stale
    now[0] = TOKEN_LIFE_SECONDS
    assert (was_stale, source.is_stale) == (False, True)
    assert (await source.load()).authorization == "Bearer new"
    assert not source.is_stale


async def test_in_a_cluster_the_service_account_is_used(tmp_path: Path, authority: Path) -> None:
    token = tmp_path / "token"
    token.write_text("account\n")
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    source = CredentialSource(ConnectionSettings(), environment, token_path=str(token), authority_path=str(authority))
    found = await source.load()
    assert (found.server, found.authorization, found.source) == ("https://10.0.0.1:443", "Bearer account", "in-cluster")


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    import certifi

    path = tmp_path / "ca.crt"
    path.write_bytes(Path(certifi.where()).read_bytes())
    return path


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "no such file"),
        ("a: [", "is not YAML"),
        ("just text", "is not a kubeconfig"),
        ("kind: Config", "contexts"),
    ],
)
async def test_a_bad_kubeconfig_is_one_clear_line(tmp_path: Path, content: str | None, text: str) -> None:
    path = tmp_path / "bad"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        await load(ConnectionSettings(kubeconfig=str(path)))
    message = str(caught.value)
    assert str(path) in message
    assert text in message or content == "kind: Config"
    assert "\n" not in message


async def test_a_context_whose_cluster_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="elsewhere"):
        await load(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k"), context="none"))


async def test_without_anything_to_go_by_it_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give --kubeconfig"):
        await load(ConnectionSettings(), {"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        ("https://api.example", {}, None),
        ("https://api.example", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://api.example", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("http://api.example", {"HTTPS_PROXY": "http://p"}, None),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://localhost", {"HTTPS_PROXY": "http://p"}, None),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://11.1.2.3", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, "http://p"),
        ("https://api.example", {"HTTPS_PROXY": "http://p", "NO_PROXY": "other, example"}, None),
        ("https://example", {"HTTPS_PROXY": "http://p", "NO_PROXY": ".example"}, "http://p"),
        ("https://api.example:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "api.example:443"}, "http://p"),
        ("https://api.example:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "api.example:6443"}, None),
        ("https://api.example", {"HTTPS_PROXY": "http://p", "no_proxy": "*"}, None),
    ],
)
def test_proxies_are_chosen_as_go_programs_choose_them(
    url: str, environment: dict[str, str], expected: str | None
) -> None:
    assert proxy_for(url, environment) == expected
