"""``tandem ui``: the page of a running scheduler in the user's browser, on the loopback, under an address that only the
user knows.

A browser can neither show a token nor verify a scheduler by its certificate's fingerprint. This command does both, as
``tandem queue`` does, for each request of the browser: the token never reaches the browser. Other users of the machine
can reach the port, but do not know the random path; other sites neither know it nor pass the checks of host and origin.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar, Final

import aiohttp
from aiohttp import web
from yarl import URL

from scheduler.cli.asking import Reaching
from scheduler.cli.complaint import complain
from scheduler.cli.connection import Access, Server, Unanswered, get_page, server_of
from scheduler.cli.leader import LeaderWay
from scheduler.cli.options import option, whole
from scheduler.controller.serve.authorization import refusal
from scheduler.controller.serve.page_files import HEADERS
from scheduler.controller.signals import StopSignals
from scheduler.errors import ConfigurationError, Fault

MAX_AT_ONCE: Final = 32
MAX_BODY_BYTES: Final = 2**20
MAX_ANSWER_BYTES: Final = 64 * 2**20
ANSWER_SECONDS: Final = 60.0
CHUNK_BYTES: Final = 64 * 1024
SECRET_BYTES: Final = 24
PARTS: Final = ("ui", "debug")
"""Prefixes of the paths that are passed on: the page, and what it reads."""
_ASKED_HEADERS: Final = ("Accept", "Content-Type", "If-None-Match", "Last-Event-ID")
_ANSWERED_HEADERS: Final = (*HEADERS, "Content-Type", "ETag", "Location", "Retry-After")


@dataclass(frozen=True, kw_only=True)
class UiOptions(Reaching):
    """The options of ``tandem ui``."""

    SECTION: ClassVar[str] = "Options"
    port: int = option(
        "--port",
        metavar="PORT",
        help="The port on the loopback; 0 is any free one.",
        default=0,
        reads=whole(0, 65535),
        shows=True,
    )


def ui(options: UiOptions) -> int:
    """Serve the scheduler's page to a browser on this machine, until Ctrl-C.

    Prints the address. Who has it sees what you may see: do not pass it on."""
    try:
        asyncio.run(_serve(options.access(), options.port))
    except KeyboardInterrupt:
        return 0
    except Unanswered as error:
        complain(str(error))
        return 1
    return 0


async def _serve(access: Access, port: int) -> None:
    async with window(access, os.environ, port) as address:
        stop = StopSignals()
        stop.install()
        print(f"The page: {address}\nWho has this address sees what you may see. Ctrl-C ends it.", flush=True)
        await stop.wait()


@asynccontextmanager
async def window(access: Access, environment: Mapping[str, str], port: int = 0) -> AsyncIterator[str]:
    """The page's address, served for the block. Raises Unanswered if the scheduler can't be reached, and
    ConfigurationError for a wrong option."""
    async with AsyncExitStack() as stack:
        way: Way
        if access.server:
            server = await server_of(access, environment)
            # Asked once, so that what is wrong is said here and not to the browser alone.
            await get_page(server, "/ui/")
            way = ServerWay(server)
        else:
            way = await stack.enter_async_context(LeaderWay(access, environment))
        served = Window(way)
        runner = web.AppRunner(served.application(), access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        try:
            site = web.TCPSite(runner, "127.0.0.1", port)
            await site.start()
        except OSError as error:
            raise ConfigurationError([Fault("--port", f"{port} can't be used: {error.strerror}")]) from error
        served.port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{served.port}/{served.secret}/ui/"


class ServerWay:
    """The way to a scheduler by its address."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Server]:
        yield self._server


Way = ServerWay | LeaderWay


class Window:
    """Passes a browser's requests on. ``port`` is set once it listens."""

    def __init__(self, way: Way) -> None:
        self.secret = secrets.token_hex(SECRET_BYTES)
        self.port = 0
        self._way = way
        self._open = 0

    def application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{secret}/{part}{rest:.*}", self.pass_on)
        return application

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        why = self._why_refused(request)
        if why:
            return refusal(403, "Forbidden", why)
        is_known = hmac.compare_digest(request.match_info["secret"].encode(), self.secret.encode())
        if not is_known or request.match_info["part"] not in PARTS or ".." in request.match_info["rest"].split("/"):
            raise web.HTTPNotFound
        if request.method not in ("GET", "POST"):
            raise web.HTTPMethodNotAllowed(request.method, ("GET", "POST"))
        if self._open >= MAX_AT_ONCE:
            return refusal(429, "TooManyRequests", f"{MAX_AT_ONCE} requests are under way")
        self._open += 1
        try:
            return await self._ask(request)
        except Unanswered as error:
            return refusal(502, "BadGateway", str(error))
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            return refusal(502, "BadGateway", f"the scheduler can't be asked: {error or type(error).__name__}")
        finally:
            self._open -= 1

    def _why_refused(self, request: web.Request) -> str:
        hosts = (f"127.0.0.1:{self.port}", f"localhost:{self.port}")
        if request.host not in hosts:
            return "the Host header does not name this address"
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return "requests from other sites are not answered"
        if request.headers.get("Origin", f"http://{request.host}") != f"http://{request.host}":
            return "requests from other origins are not answered"
        return ""

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _ASKED_HEADERS if name in request.headers}
        path = request.raw_path.removeprefix(f"/{request.match_info['secret']}")
        body = await request.read() if request.method == "POST" else None
        limit = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with (
            self._way.open() as server,
            aiohttp.ClientSession(trust_env=False, timeout=limit, auto_decompress=False) as session,
        ):
            if server.authorization:
                headers["Authorization"] = server.authorization
            async with session.request(
                request.method,
                URL(f"{server.url}{path}", encoded=True),
                headers=headers,
                data=body,
                ssl=aiohttp.Fingerprint(server.fingerprint) if server.fingerprint else server.ssl_context or True,
                allow_redirects=False,
            ) as answer:
                return await self._answer(request, answer)

    async def _answer(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        passed = web.StreamResponse(
            status=answer.status,
            headers={name: answer.headers[name] for name in _ANSWERED_HEADERS if name in answer.headers},
        )
        passed.headers.setdefault("Cache-Control", "no-store")
        passed.headers["Referrer-Policy"] = "no-referrer"
        await passed.prepare(request)
        size = 0
        # The status is sent already: if the answer breaks off, all that can be done is to close the connection.
        try:
            async for part in answer.content.iter_any():
                size += len(part)
                if size > MAX_ANSWER_BYTES:
                    raise ConnectionError
                await passed.write(part)
            await passed.write_eof()
        except (TimeoutError, aiohttp.ClientError, OSError):
            if request.transport is not None:
                with suppress(OSError):
                    request.transport.abort()
        return passed
