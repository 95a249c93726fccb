"""Credentials from files, and the proxies that lead to the server."""

from __future__ import annotations

import datetime
import os
from base64 import b64encode
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import (
    TOKEN_LIFE_SECONDS,
    ClientCertificate,
    Credentials,
    CredentialSource,
)
from scheduler.controller.write.kubeconfig import plain_kubeconfig
from scheduler.controller.write.kubeconfig_library import read_kubeconfig
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


async def test_of_a_token_and_a_token_file_the_file_counts_as_long_as_it_can_be_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    path = kubeconfig(tmp_path / "k", token="stated", tokenFile=str(token))
    now = [0.0]
    source = CredentialSource(ConnectionSettings(kubeconfig=path), {}, clock=lambda: now[0])
    assert (await source.load()).authorization == "Bearer stated"
    for content, expected in (("old\n", "old"), ("new\n", "new"), ("", "stated")):
        token.write_text(content)
        now[0] += TOKEN_LIFE_SECONDS
        assert source.is_stale
        assert (await source.load()).authorization == f"Bearer {expected}"


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
        ("a: [", "is not YAML: while parsing a flow"),
        ("a: 1\n---\nb: 2", "2 documents"),
        ("just text", "is not a kubeconfig"),
        ("kind: Config", "contexts"),
        ("[" * 100_000, "nested deeper than 100 levels (line 1, column 101)"),
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


@pytest.mark.parametrize(
    ("cluster", "user", "text"),
    [
        ({"insecure-skip-tls-verify": "false"}, {}, "insecure-skip-tls-verify must be true or false, without quotes"),
        ({"certificate-authority-data": "!!!"}, {}, "certificate-authority-data is not base64"),
        ({"server": None}, {}, "the cluster has no server"),
        ({}, {"client-certificate-data": "é"}, "client-certificate-data is not base64"),
        ({}, {"token": "t", "as": "someone"}, "as: impersonation is not supported"),
        ({}, None, "there is no user 'u'"),
    ],
)
async def test_what_the_library_would_pass_over_is_refused(
    tmp_path: Path, cluster: dict[str, object], user: dict[str, object] | None, text: str
) -> None:
    path = kubeconfig(tmp_path / "k", "https://api.example", **(user or {}))
    document = msgspec.yaml.decode((tmp_path / "k").read_bytes())
    document["clusters"][0]["cluster"] |= cluster
    if user is None:
        del document["users"]
    (tmp_path / "k").write_bytes(msgspec.yaml.encode(document))
    for listed in (path, f"{path}:{kubeconfig(tmp_path / 'second')}") if user is not None else (path,):
        with pytest.raises(ConfigurationError) as caught:
            await load(ConnectionSettings(), {"KUBECONFIG": listed})
        assert str(caught.value).endswith(f": {text}")


async def test_a_server_with_its_scheme_in_capitals_is_asked_over_tls(tmp_path: Path) -> None:
    found = await load(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", "HTTPS://api.example", token="t")))
    assert (found.server, found.ssl_context is not None) == ("https://api.example", True)


@pytest.mark.parametrize("server", ["https://u:p@api.example", "https://api.example/?a=b", "ftp://a.example"])
async def test_a_server_that_requests_cannot_be_sent_to_as_it_says_is_refused(tmp_path: Path, server: str) -> None:
    with pytest.raises(ConfigurationError, match=r"k: the server must be http://HOST:PORT or https://HOST:PORT"):
        await load(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", server, token="t")))
    found = await load(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", "https://[::1]:6443/k8s/clusters/c")))
    assert found.server == "https://[::1]:6443/k8s/clusters/c"


@pytest.mark.parametrize("proxy", ["127.0.0.1:3128", "socks5://127.0.0.1:1080"])
async def test_a_proxy_that_requests_cannot_go_through_is_refused(tmp_path: Path, proxy: str) -> None:
    path = written(tmp_path, {"server": "https://api.example", "proxy-url": proxy}, {"token": "t"})
    with pytest.raises(ConfigurationError, match=r"the proxy must be http://HOST:PORT or https://HOST:PORT"):
        await load(ConnectionSettings(kubeconfig=path))


async def test_a_client_certificate_without_its_key_is_named(tmp_path: Path) -> None:
    certificate, _ = self_signed()
    user: dict[str, object] = {"client-certificate-data": b64encode(certificate).decode()}
    with pytest.raises(ConfigurationError, match="the client certificate and its key can't be used"):
        await load(ConnectionSettings(kubeconfig=written(tmp_path, {"server": "https://api.example"}, user)))


async def test_a_fault_of_what_is_not_used_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "other").write_text(
        "users: [{name: else, user: {as: x}}]\nclusters: [{name: else, cluster: {certificate-authority-data: '!'}}]"
    )
    listed = f"{kubeconfig(tmp_path / 'k', token='t')}:{tmp_path / 'other'}"
    assert (await load(ConnectionSettings(), {"KUBECONFIG": listed})).authorization == "Bearer t"


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


# --- plain kubeconfigs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"server": "http://api.example:8080/"}, {"token": "secret"}),
        ({"server": "https://api.example"}, {"tokenFile": "token"}),
        ({"server": "https://api.example", "certificate-authority": "ca.pem"}, {"token": "secret"}),
        ({"server": "https://api.example", "certificate-authority-data": b64encode(b"AUTHORITY").decode()}, {}),
        ({"server": "https://api.example", "insecure-skip-tls-verify": True, "tls-server-name": "other"}, {}),
        ({"server": "https://api.example", "proxy-url": "http://proxy:3128"}, {"token": "secret"}),
        ({"server": "https://api.example"}, {"client-certificate": "cert.pem", "client-key": "key.pem"}),
        ({"server": "https://api.example"}, {"client-certificate": "cert.pem"}),
        ({"server": "http://api.example"}, {"client-certificate": "cert.pem", "client-key": "key.pem"}),
        (
            {"server": "https://api.example"},
            {"client-certificate-data": b64encode(b"CERT").decode(), "client-key-data": b64encode(b"KEY").decode()},
        ),
    ],
)
async def test_a_plain_kubeconfig_is_read_as_kubernetes_asyncio_reads_it(
    tmp_path: Path, cluster: dict[str, object], user: dict[str, object]
) -> None:
    for name in ("token", "ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text(f"content of {name}\n")
    path = written(tmp_path, cluster, user)
    expected, expiry = await read_kubeconfig(path, "")
    assert plain_kubeconfig(path, "") == expected
    assert expiry is None


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"server": "https://api.example"}, {"exec": {"command": "plugin"}}),
        ({"server": "https://api.example"}, {"auth-provider": {"name": "oidc"}}),
        ({"server": "https://api.example"}, {"username": "me", "password": "secret"}),
        ({"server": "https://api.example"}, {"as": "another"}),
        ({"server": "https://api.example"}, {"tokenFile": "missing"}),
        ({"server": "https://api.example"}, {"token": 5}),
        ({"server": "https://api.example", "disable-compression": True}, {"token": "secret"}),
        ({"server": "https://api.example", "insecure-skip-tls-verify": "true"}, {"token": "secret"}),
        ({"server": "https://api.example", "certificate-authority-data": "no base64!"}, {"token": "secret"}),
        ({}, {"token": "secret"}),
    ],
)
def test_everything_else_is_left_to_kubernetes_asyncio(
    tmp_path: Path, cluster: dict[str, object], user: dict[str, object]
) -> None:
    assert plain_kubeconfig(written(tmp_path, cluster, user), "") is None


def test_several_kubeconfigs_are_left_to_kubernetes_asyncio(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "k", token="secret")
    assert plain_kubeconfig(path, "") is not None
    assert plain_kubeconfig(f"{path}{os.pathsep}{path}", "") is None


def written(folder: Path, cluster: dict[str, object], user: dict[str, object]) -> str:
    """A kubeconfig with one context."""
    config = {
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
    }
    (folder / "kubeconfig").write_bytes(msgspec.yaml.encode(config))
    return str(folder / "kubeconfig")


async def test_a_client_certificate_in_the_kubeconfig_is_presented_and_leaves_no_key_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    certificate, key = self_signed()
    folder = tmp_path / "config"
    folder.mkdir()
    user: dict[str, object] = {
        "client-certificate-data": b64encode(certificate).decode(),
        "client-key-data": b64encode(key).decode(),
    }
    found = await load(ConnectionSettings(kubeconfig=written(folder, {"server": "https://api.example"}, user)))
    assert found.ssl_context is not None
    assert found.client_certificate == ClientCertificate(certificate, key)
    assert os.listdir(tmp_path) == ["config"]


def self_signed() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "someone")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return certificate.public_bytes(serialization.Encoding.PEM), private


async def test_a_context_that_is_not_there_and_a_file_beside_are_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "k", token="t")
    for settings, said in (
        (ConnectionSettings(kubeconfig=path, context="other"), f"kubeconfig {path}: there is no context 'other'"),
        (ConnectionSettings(kubeconfig="absent"), "kubeconfig absent: no such file"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            await load(settings)
        assert str(caught.value) == said
