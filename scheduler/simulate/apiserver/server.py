"""The embedded API server: HTTP on the loopback, backed by an in-memory registry.

Once its body is read, a request is served in one step; only watches last longer. Faults may be injected in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import datetime
from types import TracebackType
from typing import Any, Final

import msgspec
from aiohttp import web

from scheduler.simulate.apiserver import connecting, discovery, failures, logs
from scheduler.simulate.apiserver.faults import Fault, Faults
from scheduler.simulate.apiserver.listing import Listings
from scheduler.simulate.apiserver.registry import Registry, utc_now
from scheduler.simulate.apiserver.routing import resolve
from scheduler.simulate.apiserver.store import Store
from scheduler.simulate.apiserver.verbs import Answer, Request, Verbs, Watching
from scheduler.simulate.apiserver.watching import Watch

_JSON: Final = "application/json"
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_PUBLIC: Final = (*_HEALTH, "/version")
_KEEP_ALIVE_SECONDS: Final = 3600.0
_LOGGED_REQUESTS: Final = 10_000
_encode = msgspec.json.Encoder().encode


class Served(msgspec.Struct, frozen=True):
    """A served request, recorded for tests."""

    method: str
    path: str
    code: int


class ApiServer:
    """Serves one store. `token` None: requests need no authentication.

    `bookmark_seconds` is the interval of bookmarks in watches that allow them, `history` the number of changes kept per
    resource.
    """

    def __init__(self, *, token: str | None = None, bookmark_seconds: float = 60.0, history: int = 50_000) -> None:
        self.store = Store(history)
        self.registry = Registry(self.store, utc_now)
        self.faults = Faults()
        self.absent: set[str] = set()
        """Resources (``deviceclasses.resource.k8s.io``) that this server neither serves nor lists in discovery."""
        self.served: deque[Served] = deque(maxlen=_LOGGED_REQUESTS)
        self.pod_ports: dict[tuple[str, str], int] = {}
        """Namespace and name of a pod → the loopback's port to which a port-forward connects."""
        self._token = token
        self._bookmark_seconds = bookmark_seconds
        self._listings = Listings(self.store)
        self._verbs = Verbs(self.registry, self._listings, token)
        self._watches: set[Watch] = set()
        self._runner: web.ServerRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The server's URL, without a trailing slash."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def watching(self) -> int:
        """The number of running watches."""
        return len(self._watches)

    async def start(self, port: int = 0) -> None:
        """Listens on the loopback; port 0 means any free one."""
        server = web.Server(
            self._handle, handler_cancellation=True, access_log=None, keepalive_timeout=_KEEP_ALIVE_SECONDS
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, backlog=1024)
        await site.start()
        self._port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Ends all watches and closes the port."""
        self.close_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def close_watches(self) -> None:
        """Ends all running watches, as a restarting server does; clients have to watch again."""
        for watch in list(self._watches):
            watch.close()

    def cut_watches(self) -> None:
        """Breaks the connections of all running watches."""
        for watch in list(self._watches):
            watch.close(cut=True)

    def compact(self) -> None:
        """Drops all history: resuming an earlier watch or paged list gets 410."""
        self.store.compact()
        self._listings.forget()

    def now(self) -> datetime:
        return self.registry.now()

    # -- one request ----------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if (named := connecting.PORT_FORWARD.fullmatch(request.path)) and self._is_known(request):
            self.served.append(Served(request.method, request.path, 101))
            return await connecting.forward(request, self.pod_ports.get((named[1], named[2])))
        fault = self.faults.take(request.method, request.path_qs) if self.faults.rules else None
        if fault is not None:
            refused = await self._suffer(request, fault)
            if refused is not None:
                return refused
        try:
            answer = await self._answer(request)
        except failures.Failure as failure:
            answer = Answer(failure.code, _encode(failure.body()))
        if fault is not None and fault.action == "drop_after":
            return _hang_up(request)
        if isinstance(answer, Watching):
            self.served.append(Served(request.method, request.path, 200))
            return await self._stream(request, answer)
        if isinstance(answer, web.Response):
            return answer
        return self._reply(request, answer)

    def _reply(self, request: web.BaseRequest, answer: Answer) -> web.Response:
        self.served.append(Served(request.method, request.path, answer.code))
        return web.Response(body=answer.body, status=answer.code, content_type=_JSON)

    async def _answer(self, request: web.BaseRequest) -> Answer | Watching | web.Response:
        path = request.path
        if path not in _PUBLIC and not self._is_known(request):
            raise failures.unauthorized()
        if request.method == "POST" and (named := connecting.TOKEN.fullmatch(path)):
            return Answer(201, _encode(connecting.token_request(named[1], named[2], await request.read())))
        if named := logs.STREAMS.fullmatch(path):
            raise logs.no_stream(self.registry, named[1], named[2], named[3])
        if request.method == "GET":
            if path in _HEALTH:
                return web.Response(text="ok")
            if named := logs.LOGS.fullmatch(path):
                return web.Response(
                    text=logs.log_of(self.registry, named[1], named[2], request.query.get("container", ""))
                )
            document = discovery.document(path, self.absent)
            if document is not None:
                return Answer(200, _encode(document))
        target = resolve(path)
        if target is None or target.kind.resource in self.absent:
            return web.Response(text="404 page not found\n", status=404)
        headers = request.headers
        return self._verbs.serve(
            target,
            Request(
                method=request.method,
                path=path,
                query=dict(request.query.items()) if request.query_string else {},
                body=await request.read() if request.body_exists else b"",
                content_type=headers.get("Content-Type", ""),
                accept=headers.get("Accept", ""),
                user_agent=headers.get("User-Agent", ""),
            ),
        )

    def _is_known(self, request: web.BaseRequest) -> bool:
        return self._token is None or request.headers.get("Authorization", "") == f"Bearer {self._token}"

    async def _suffer(self, request: web.BaseRequest, fault: Fault) -> web.StreamResponse | None:
        match fault.action:
            case "delay":
                await asyncio.sleep(fault.seconds)
            case "drop":
                return _hang_up(request)
            case "answer":
                return web.Response(body=fault.body, content_type=_JSON)
            case "status":
                await request.read()
                details: dict[str, Any] = {"retryAfterSeconds": fault.retry_after} if fault.retry_after else {}
                failure = failures.Failure(fault.code, fault.reason, fault.message, details)
                reply = self._reply(request, Answer(fault.code, _encode(failure.body())))
                if fault.retry_after:
                    reply.headers["Retry-After"] = str(fault.retry_after)
                return reply
        return None

    async def _stream(self, request: web.BaseRequest, answer: Watching) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": _JSON, "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        watch = Watch(self.store, answer.request, self._bookmark_seconds, answer.render)
        self._watches.add(watch)
        try:
            await response.prepare(request)
            async for block in watch.lines():
                await response.write(block)
            if watch.is_cut:
                _hang_up(request)
            else:
                await response.write_eof()
        except ConnectionError:
            return response
        finally:
            self._watches.discard(watch)
        return response


def _hang_up(request: web.BaseRequest) -> web.Response:
    """Closes the connection; the returned response is not sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
