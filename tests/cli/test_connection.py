"""Which servers get the kubeconfig's token: the real command line against servers that note what reaches them."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from scheduler.cli.main import main
from scheduler.controller.serve.certificates import self_made_pair

TOKEN = "the-token-of-the-kubeconfig"
PAGE = {"counts": {"active": 0}, "waiting": []}


class Recording:
    """A server on the loopback. ``seen``: the Authorization header of each request, "" where there was none; ``paths``:
    their paths and queries."""

    def __init__(self, answer: web.Response | None = None) -> None:
        self.seen: list[str] = []
        self.paths: list[str] = []
        self.url = ""
        self._answer = answer

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(request.headers.get("Authorization", ""))
        self.paths.append(request.path_qs)
        if self._answer is not None:
            return web.Response(status=self._answer.status, headers=dict(self._answer.headers), body=self._answer.body)
        return web.json_response(PAGE)


class Certificate:
    """Made for the loopback, signed by itself."""

    def __init__(self, folder: Path) -> None:
        certificate, key = self_made_pair("host", datetime.datetime.now(datetime.UTC))
        self.file = folder / "tls.crt"
        self.file.write_bytes(certificate)
        (folder / "tls.key").write_bytes(key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.file, folder / "tls.key")
        der = x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)
        self.fingerprint = hashlib.sha256(der).hexdigest()


@asynccontextmanager
async def serving(recording: Recording, context: ssl.SSLContext | None = None) -> AsyncIterator[Recording]:
    runner = web.ServerRunner(web.Server(recording.answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        scheme = "http" if context is None else "https"
        recording.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
        yield recording
    finally:
        await runner.cleanup()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    file = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "clusters": [{"name": "one", "cluster": {"server": "https://api.test"}}],
        "users": [{"name": "one", "user": {"token": TOKEN}}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
    }
    file.write_text(yaml.safe_dump(document))
    return f"--kubeconfig={file}"


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path)


async def ask(*arguments: str) -> int:
    return await asyncio.to_thread(main, ["queue", *arguments])


async def test_a_server_on_the_loopback_that_is_not_verified_is_shown_no_token(
    kubeconfig: str, certificate: Certificate
) -> None:
    async with serving(Recording(), certificate.context) as server:
        assert await ask(kubeconfig, "--server", server.url) == 0
        assert server.seen == [""]


async def test_where_that_server_wants_a_token_the_user_is_advised(
    kubeconfig: str, certificate: Certificate, capfd: pytest.CaptureFixture[str]
) -> None:
    refusing = Recording(web.json_response({"message": "Unauthorized"}, status=401))
    async with serving(refusing, certificate.context) as server:
        assert await ask(kubeconfig, "--server", server.url) == 1
    assert "Unauthorized. No token was sent" in (output := capfd.readouterr().err)
    assert "--server-ca" in output


async def test_plain_http_is_shown_no_token(kubeconfig: str) -> None:
    async with serving(Recording()) as server:
        assert await ask(kubeconfig, "--server", server.url) == 0
        assert server.seen == [""]


@pytest.mark.parametrize("option", ["--server-ca", "--certificate-authority"])
async def test_a_server_of_the_stated_authority_is_shown_the_token(
    kubeconfig: str, certificate: Certificate, option: str
) -> None:
    async with serving(Recording(), certificate.context) as server:
        assert await ask(kubeconfig, "--server", server.url, option, str(certificate.file)) == 0
        assert server.seen == [f"Bearer {TOKEN}"]


async def test_a_server_of_another_authority_is_not_asked_at_all(
    kubeconfig: str, certificate: Certificate, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    other = Certificate(tmp_path / "other")
    async with serving(Recording(), certificate.context) as server:
        assert await ask(kubeconfig, "--server", server.url, "--server-ca", str(other.file)) == 1
        assert server.seen == []
    assert "its certificate is not trusted" in (said := capfd.readouterr().err)
    assert "--server-fingerprint" in said and "Is the scheduler running?" not in said


async def test_a_server_with_the_stated_fingerprint_is_shown_the_token_and_another_nothing(
    kubeconfig: str, certificate: Certificate, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(Recording(), certificate.context) as server:
        where = [kubeconfig, "--server", server.url, "--server-fingerprint"]
        assert await ask(*where, f"SHA256:{certificate.fingerprint.upper()}") == 0
        assert server.seen == [f"Bearer {TOKEN}"]
        assert await ask(*where, "00" * 32) == 1
        assert server.seen == [f"Bearer {TOKEN}"]
    assert f"its SHA-256 is {certificate.fingerprint}" in capfd.readouterr().err


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(
    kubeconfig: str, certificate: Certificate, capfd: pytest.CaptureFixture[str], status: int
) -> None:
    async with AsyncExitStack() as stack:
        thief = await stack.enter_async_context(serving(Recording()))
        redirect = Recording(web.Response(status=status, headers={"Location": f"{thief.url}/debug/queue"}))
        server = await stack.enter_async_context(serving(redirect, certificate.context))
        assert await ask(kubeconfig, "--server", server.url, "--server-ca", str(certificate.file)) == 1
        assert (len(server.seen), thief.seen) == (1, [])
    assert "which is not followed" in capfd.readouterr().err


async def test_a_server_of_plain_http_that_is_asked_over_https_is_named_with_the_remedy(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with serving(Recording()) as server:
        assert await ask("--server", server.url.replace("http:", "https:")) == 1
        assert f"it serves plain HTTP. Use --server {server.url}" in capfd.readouterr().err


async def test_a_server_of_https_that_is_asked_over_plain_http_is_named_with_the_remedy(
    certificate: Certificate, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(Recording(), certificate.context) as server:
        assert await ask("--server", server.url.replace("https:", "http:")) == 1
        assert f"If it serves HTTPS, use --server {server.url}" in capfd.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--server-ca", "tls.crt"), ("--server-fingerprint", "00" * 32)])
async def test_what_would_be_verified_is_not_left_unverified_in_silence(
    capfd: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    async with serving(Recording()) as server:
        assert await ask("--server", server.url, option, value) == 1
        assert server.seen == []
    assert await ask(option, value) == 1
    plain, leader = capfd.readouterr().err.splitlines()
    assert plain == f"Error: {option}: nothing is verified over plain HTTP: --server must be https://"
    assert leader == f"Error: {option}: belongs to --server: the leader is verified by its Lease"


async def test_options_that_can_not_be_used_are_named(kubeconfig: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert await ask("--server", "ftp://host") == 1
    assert await ask("--server", "https://127.0.0.1:1", "--server-fingerprint", "abc") == 1
    assert await ask("--server", "https://127.0.0.1:1", "--server-ca", "/nope") == 1
    assert await ask("--server", "https://127.0.0.1:1", "--context", "nope", kubeconfig) == 1
    output = capfd.readouterr().err
    for part in ("--server: ", "--server-fingerprint: ", "--server-ca: /nope", "nope"):
        assert part in output, output
