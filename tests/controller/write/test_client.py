"""The port to the API server: errors, credentials that expire, silence."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scheduler.controller.write.client import ApiClient, Directly
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import TOKEN_LIFE_SECONDS, CredentialSource
from scheduler.controller.write.request_limiter import RequestLimiter
from scheduler.errors import ApiError, ConfigurationError
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.write.test_credentials import kubeconfig

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server with one answer to everything; its URL."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(settings: ConnectionSettings) -> AsyncIterator[ApiClient]:
    client = ApiClient(CredentialSource(settings, {}))
    try:
        yield client
    finally:
        await client.close()


async def test_a_refusal_carries_what_the_status_object_says(client: ApiClient) -> None:
    with pytest.raises(ApiError) as caught:
        await client.request("GET", "/api/v1/namespaces/default/pods/absent")
    assert caught.value.is_not_found
    assert caught.value.reason == "NotFound"
    assert 'pods "absent" not found' in str(caught.value)


async def test_a_429_tells_how_long_to_wait(cluster: EmbeddedCluster, client: ApiClient) -> None:
    cluster.faults.fail("GET", "/api/v1/pods", 429, reason="TooManyRequests", retry_after=7)
    with pytest.raises(ApiError) as caught:
        await client.request("GET", "/api/v1/pods")
    assert caught.value.is_too_many_requests
    assert caught.value.retry_after == 7.0


async def test_no_answer_is_a_transient_error_without_a_status(tmp_path: Path) -> None:
    settings = ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", "http://127.0.0.1:1"))
    async with client_of(settings) as client:
        with pytest.raises(ApiError) as caught:
            await client.request("GET", "/version")
    assert caught.value.status == 0
    assert caught.value.is_transient


async def test_a_401_makes_the_credentials_be_read_again_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.Response(status=200 if seen[-1] == "Bearer new" else 401)

    async with serving(handler) as url:
        settings = ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", url, tokenFile=str(token)))
        async with client_of(settings) as client:
            with pytest.raises(ApiError) as caught:
                await client.request("GET", "/x")
            assert caught.value.status == 401
            token.write_text("new")
            await client.request("GET", "/x")
            await client.request("GET", "/x")
    assert seen == ["Bearer old", "Bearer old", "Bearer old", "Bearer new", "Bearer new"]


async def test_a_kubeconfig_that_is_gone_for_a_while_leaves_the_old_token_in_use_and_is_logged(
    tmp_path: Path, log_lines: list[dict[str, Any]]
) -> None:
    seen: list[str] = []
    now = [0.0]

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.Response()

    token = tmp_path / "token"
    token.write_text("old")
    async with serving(handler) as url:
        path = kubeconfig(tmp_path / "k", url, tokenFile=str(token))
        client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=path), {}, clock=lambda: now[0]))
        await client.request("GET", "/x")
        now[0] += TOKEN_LIFE_SECONDS
        os.rename(path, path + ".aside")
        await client.request("GET", "/x")
        os.rename(path + ".aside", path)
        token.write_text("new")
        now[0] += TOKEN_LIFE_SECONDS
        await client.request("GET", "/x")
        await client.close()
    assert seen == ["Bearer old", "Bearer old", "Bearer new"]
    warnings = [line["error"] for line in log_lines if line["log_level"] == "warning"]
    assert warnings == [f"kubeconfig {path}: no such file"]


@pytest.mark.parametrize("half_written", ["", "ne\nw"])
async def test_a_token_file_that_is_being_written_leaves_the_old_token_in_use(
    tmp_path: Path, directly: Directly, half_written: str
) -> None:
    seen: list[str] = []
    now = [0.0]

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", "anonymous"))
        return web.Response()

    token = tmp_path / "token"
    async with serving(handler) as url:
        path = kubeconfig(tmp_path / "k", url, tokenFile=str(token))
        source = CredentialSource(ConnectionSettings(kubeconfig=path), {}, clock=lambda: now[0])
        client = ApiClient(source, directly=directly)
        for text in ("old", half_written, "new"):
            token.write_text(text)
            await client.request("GET", "/x")
            now[0] += TOKEN_LIFE_SECONDS
        await client.close()
    assert seen == ["Bearer old", "Bearer old", "Bearer new"]


@pytest.mark.parametrize(("text", "what"), [("", "is empty"), ("to\nken", "line break")])
async def test_a_token_file_without_a_token_is_one_clear_line_at_the_start(
    tmp_path: Path, directly: Directly, text: str, what: str
) -> None:
    (tmp_path / "token").write_text(text)
    path = kubeconfig(tmp_path / "k", tokenFile=str(tmp_path / "token"))
    client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=path), {}), directly=directly)
    with pytest.raises(ConfigurationError, match=what):
        await client.connect()


async def test_credentials_that_can_not_be_read_any_more_are_an_api_error(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=401)

    async with serving(handler) as url:
        path = kubeconfig(tmp_path / "k", url, token="x")
        async with client_of(ConnectionSettings(kubeconfig=path)) as client:
            await client.connect()
            os.unlink(path)
            with pytest.raises(ApiError) as caught:
                await client.request("GET", "/x")
    assert caught.value.reason == "BadCredentials"


async def test_a_silent_watch_is_given_up(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await request.content.wait_eof()
        await asyncio.Event().wait()
        return response

    async with serving(handler) as url:
        settings = ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", url))
        async with client_of(settings) as client:
            chunks: list[bytes] = []

            async def watch() -> None:
                async with client.stream("/x", query={}, idle_seconds=0.05) as body:
                    while chunk := await body.read():
                        chunks.append(chunk)

            with pytest.raises(ApiError) as caught:
                await watch()
    assert chunks == [b"one\n"]
    assert caught.value.reason == "Timeout"


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://elsewhere.example/")

    async with (
        serving(handler) as url,
        client_of(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", url))) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await client.request("GET", "/x")
    assert caught.value.status == 302


async def test_a_closed_client_says_so(connection: ConnectionSettings) -> None:
    client = ApiClient(CredentialSource(connection, {}))
    await client.connect()
    await client.close()
    with pytest.raises(ApiError, match="closed"):
        await client.request("GET", "/version")


async def test_connecting_with_a_wrong_kubeconfig_is_a_configuration_error(tmp_path: Path) -> None:
    client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=str(tmp_path / "none")), {}))
    with pytest.raises(ConfigurationError, match="no such file"):
        await client.connect()


async def test_we_say_who_we_are(tmp_path: Path) -> None:
    agents: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        agents.append(request.headers["User-Agent"])
        return web.Response()

    async with (
        serving(handler) as url,
        client_of(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", url))) as client,
    ):
        await client.request("GET", "/x")
    assert agents[0].startswith("tandem-scheduler/")


def test_the_limiter_lets_a_burst_through_and_then_paces() -> None:
    now = [0.0]
    limiter = RequestLimiter(10.0, 3, clock=lambda: now[0])
    assert [round(limiter.wait_seconds(), 6) for _ in range(5)] == [0.0, 0.0, 0.0, 0.1, 0.2]
    now[0] = 10.0
    assert limiter.wait_seconds() == 0.0


def test_a_token_is_taken_at_once_only_where_no_earlier_caller_waits_for_it() -> None:
    now = [0.0]
    limiter = RequestLimiter(10.0, 2, clock=lambda: now[0])
    assert [limiter.take_now() for _ in range(3)] == [True, True, False]
    assert round(limiter.wait_seconds(), 6) == 0.1
    now[0] = 0.1
    assert not limiter.take_now()
    now[0] = 0.2
    assert [limiter.take_now() for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("sent", "read"),
    [("3", 3.0), ("3600", 60.0), ("inf", 60.0), ("nan", None), ("-5", None), ("0", None), ("tomorrow", None)],
)
async def test_a_retry_after_has_a_limit(tmp_path: Path, sent: str, read: float | None) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": sent})

    async with serving(handler) as url:
        path = kubeconfig(tmp_path / "k", url, token="x")
        async with client_of(ConnectionSettings(kubeconfig=path)) as client:
            with pytest.raises(ApiError) as caught:
                await client.request("GET", "/x")
    assert caught.value.retry_after == read
