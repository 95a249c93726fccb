"""Writes over TLS: certificates of both sides, and what a cut leaves open."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from base64 import b64encode
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.controller.kopf_operator import session_with
from scheduler.controller.write.client import Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.errors import ApiError
from tests.controller.write.scripted_server import OK, client_of, plays, served, write


def certificate_of(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of its own authority for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return certificate, private


def tls_kubeconfig(folder: Path, url: str, authority: Path, user: dict[str, Any], **cluster: Any) -> str:
    trusted = b64encode(authority.read_bytes()).decode()
    config = {
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": trusted, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
    }
    (folder / "config").write_bytes(msgspec.yaml.encode(config))
    return str(folder / "config")


def server_context(folder: Path, *clients: Path) -> tuple[ssl.SSLContext, Path]:
    certificate, key = certificate_of(folder, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        for client in clients:
            context.load_verify_locations(client)
    return context, certificate


def run_in(loop: str, main: Coroutine[Any, Any, None]) -> None:
    """uvloop's TLS is its own: what production runs on is what is tested."""
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_over_tls_the_client_s_certificate_is_shown_and_a_new_one_gets_new_connections(
    tmp_path: Path, directly: Directly, loop: str
) -> None:
    async def main() -> None:
        first, second = certificate_of(tmp_path, "first"), certificate_of(tmp_path, "second")
        context, authority = server_context(tmp_path, first[0], second[0])
        refused = False

        async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n" if refused and number == 3 else OK)

        async with served(play, context) as (server, url):

            def config(pair: tuple[Path, Path]) -> str:
                user = {"client-certificate": str(pair[0]), "client-key": str(pair[1])}
                return tls_kubeconfig(tmp_path, url, authority, user)

            async with client_of(config(first), directly) as client:
                assert [(await write(client)).status for _ in range(2)] == [201, 201]
                config(second)
                refused = True
                assert (await write(client)).status == 201
        subjects = [dict(part[0] for part in shown["subject"])["commonName"] for shown in server.certificates]
        assert subjects == ["first", "second"]

    run_in(loop, main())


async def test_kopf_s_requests_ask_for_the_server_name_of_the_kubeconfig(tmp_path: Path) -> None:
    context, authority = server_context(tmp_path)
    async with served(plays(OK, ends=False), context) as (_, url):
        elsewhere = url.replace("127.0.0.1", "localhost")
        for options, is_trusted in (({}, False), ({"tls-server-name": "127.0.0.1"}, True)):
            path = tls_kubeconfig(tmp_path, elsewhere, authority, {"token": "t"}, **options)
            credentials = await CredentialSource(ConnectionSettings(kubeconfig=path), {}).load()
            async with session_with(credentials) as session:
                if is_trusted:
                    assert (await session.post(elsewhere)).status == 201
                else:
                    with pytest.raises(aiohttp.ClientConnectorCertificateError):
                        await session.post(elsewhere)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("fault", ["authority", "name"])
def test_a_server_that_is_not_trusted_gets_no_byte_of_a_write(
    tmp_path: Path, directly: Directly, loop: str, fault: str
) -> None:
    async def main() -> None:
        context, authority = server_context(tmp_path)
        other, _ = certificate_of(tmp_path, "other")
        async with served(plays(OK, ends=False), context) as (server, url):
            options = {"tls-server-name": "api.example"} if fault == "name" else {}
            path = tls_kubeconfig(
                tmp_path, url, other if fault == "authority" else authority, {"token": "t"}, **options
            )
            async with client_of(path, directly) as client:
                departure = Departure(AlwaysHeld())
                with pytest.raises(ApiError) as caught:
                    await write(client, departure)
        assert (caught.value.reason, departure.has_left, server.requests) == ("BadCertificate", False, [])

    run_in(loop, main())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_over_tls_a_burst_is_answered_and_a_cut_leaves_it_open_what_became_of_a_write(
    tmp_path: Path, directly: Directly, loop: str
) -> None:
    async def main() -> None:
        context, authority = server_context(tmp_path)

        async def play(number: int, _request: bytes, writer: asyncio.StreamWriter) -> None:
            if number == 201:
                writer.transport.abort()
            else:
                writer.write(OK)

        async with served(play, context) as (_, url):
            path = tls_kubeconfig(tmp_path, url, authority, {"token": "t"})
            async with client_of(path, directly) as client:
                answers = await asyncio.gather(*(write(client) for _ in range(200)))
                assert {answer.body for answer in answers} == {b"ok"}
                departure = Departure(AlwaysHeld())
                with pytest.raises(ApiError) as caught:
                    await write(client, departure)
                assert (caught.value.status, departure.has_left) == (0, True)
                assert (await write(client)).status == 201

    run_in(loop, main())
