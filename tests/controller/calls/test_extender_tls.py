"""Extenders over HTTPS: which servers a call trusts, and that each extender gets its own settings."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scheduler.config.types import Extender, ExtenderTLSConfig
from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.extender_tls import extender_contexts
from scheduler.controller.serve.certificates import self_made_pair
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.errors import ConfigurationError
from scheduler.messages.commands import CallExtender
from scheduler.messages.stimuli import ExtenderAnswered
from tests.limits import WAIT_SECONDS

NAME = "extender.test"


@asynccontextmanager
async def extender_over_https(folder: Path) -> AsyncIterator[tuple[str, bytes]]:
    """The server's address, and its self-signed certificate for NAME."""
    certificate, key = self_made_pair(NAME, datetime.datetime.now(datetime.UTC))
    pair = folder / "pair.pem"
    pair.write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b"[]")

    app = web.Application()
    app.router.add_post("/{verb}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}", certificate
    finally:
        await runner.cleanup()


async def asked(url: str, extenders: Sequence[Extender], number: int = 0) -> ExtenderAnswered:
    answers: list[ExtenderAnswered] = []
    calls = ExtenderCalls(answers.append, AlwaysHeld(), extender_contexts(extenders))
    try:
        calls.submit(CallExtender(1, number, "filter", f"{url}/filter", b"{}", 5.0))
        async with asyncio.timeout(WAIT_SECONDS):
            while not answers:  # noqa: ASYNC110 - the calls set no event
                await asyncio.sleep(0.01)
    finally:
        await calls.close()
    return answers[0]


def https(**tls: Any) -> Extender:
    return Extender(url_prefix="https://x", enable_https=True, tls_config=ExtenderTLSConfig(**tls) if tls else None)


async def test_without_an_authority_no_certificate_is_verified_as_in_kube_scheduler(tmp_path: Path) -> None:
    async with extender_over_https(tmp_path) as (url, _):
        assert (await asked(url, [https()])).body == b"[]"


async def test_with_an_authority_the_certificate_must_be_its_and_made_out_to_the_stated_name(tmp_path: Path) -> None:
    async with extender_over_https(tmp_path) as (url, certificate):
        assert (await asked(url, [https(ca_data=certificate, server_name=NAME)])).body == b"[]"
        wrong = await asked(url, [https(ca_data=certificate, server_name="another.test")])
        assert "another.test" in wrong.error
        other, _ = self_made_pair(NAME, datetime.datetime.now(datetime.UTC))
        assert "certificate" in (await asked(url, [https(ca_data=other, server_name=NAME)])).error.lower()


async def test_with_an_authority_those_of_the_system_are_not_trusted_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extender_over_https(tmp_path) as (url, certificate):
        of_the_system, own = tmp_path / "system.pem", tmp_path / "own.pem"
        of_the_system.write_bytes(certificate)
        monkeypatch.setenv("SSL_CERT_FILE", str(of_the_system))
        other, _ = self_made_pair(NAME, datetime.datetime.now(datetime.UTC))
        own.write_bytes(other)
        for stated in (https(ca_data=other, server_name=NAME), https(ca_file=str(own), server_name=NAME)):
            assert "certificate" in (await asked(url, [stated])).error.lower()


async def test_each_extender_has_its_own_settings_though_the_ignorable_ones_are_asked_last(tmp_path: Path) -> None:
    async with extender_over_https(tmp_path) as (url, certificate):
        ignorable = Extender(url_prefix="http://plain", ignorable=True)
        strict = https(ca_data=certificate, server_name=NAME)
        assert (await asked(url, [ignorable, strict], number=0)).body == b"[]"


def test_an_invalid_certificate_is_reported_with_its_place_in_the_configuration() -> None:
    broken = ExtenderTLSConfig(ca_data=b"nonsense")
    with pytest.raises(ConfigurationError) as caught:
        extender_contexts([Extender(url_prefix="a", ignorable=True, tls_config=broken), Extender(url_prefix="b")])
    assert [fault.path for fault in caught.value.faults] == ["extenders[0].tlsConfig"]
