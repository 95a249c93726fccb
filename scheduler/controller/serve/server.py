"""The HTTP server for probes, metrics and the effective configuration (docs/kube-scheduler/cycle.md §17)."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry

from scheduler.controller.serve.authentication import MAX_TOKEN_CHARACTERS
from scheduler.controller.serve.connection_limits import ConnectionCounts
from scheduler.controller.serve.connections import Connections
from scheduler.controller.serve.exposition import exposition
from scheduler.controller.serve.listening import listening_sockets
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.serve.slis import HealthIndicators

Check = Callable[[], str]
"""A health check: returns the problem, "" if there is none."""

SHUTDOWN_SECONDS = 1.0
MAX_FIELD_BYTES: Final = len("Bearer ") + MAX_TOKEN_CHARACTERS
"""Bytes of one header: aiohttp's own 8,190 refuse tokens of users who are in many groups."""


class _ClientsFaults(logging.Filter):
    """Drops records of client errors: requests that are not HTTP would fill the log with tracebacks."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOGGER = logging.getLogger("aiohttp.server.pages")
_LOGGER.addFilter(_ClientsFaults())


class HealthServer:
    """The server; ``late_server`` says when it starts.

    ``/readyz`` runs ``ready_checks``, ``/livez`` only answers; ``/healthz`` shows leader election only, as in
    kube-scheduler, where a page without a check of its own has the check ``ping``; ``/configz`` what ``configz``
    returns. Also as there, all methods are answered alike, except that DELETE resets metrics. ``routes`` adds further
    pages (debug and web). ``guards`` are the middlewares of every request.
    """

    def __init__(
        self,
        settings: ServingSettings,
        registry: CollectorRegistry,
        *,
        ready_checks: Mapping[str, Check],
        configz: Callable[[], Mapping[str, Any]] = dict,
        reset_metrics: Callable[[], None] = lambda: None,
        routes: tuple[web.RouteDef, ...] = (),
        guards: tuple[Middleware, ...] = (),
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._ready_checks = ready_checks
        self._indicators = HealthIndicators()
        self._shown_configuration = configz
        self._reset_metrics = reset_metrics
        self._routes = routes
        self._guards = guards
        self._runner: web.AppRunner | None = None
        certificate = settings.certificate
        self.connections = Connections(
            lambda: certificate.context if certificate is not None else None, settings.limits
        )
        self.port = 0
        """The listening port, once started."""

    def _context(self) -> ssl.SSLContext | None:
        return self._settings.certificate.context if self._settings.certificate is not None else None

    async def start(self) -> None:
        """Starts listening, unless the settings' port is 0. Raises ConfigurationError with one line if that fails."""
        if not self._settings.port:
            return
        await self.start_on(self._settings.port)

    async def start_on(self, port: int) -> None:
        """As ``start``, on this port; 0 means any free one."""
        await self.serve_on(listening_sockets(self._settings.bind_address, port))

    async def serve_on(self, sockets: Sequence[socket.socket]) -> None:
        """Starts to answer on these listening sockets."""
        runner = web.AppRunner(
            self._application(),
            handle_signals=False,
            access_log=None,
            logger=_LOGGER,
            # Else the rest of a body is waited for, for 10 s, when its client is gone.
            handler_cancellation=True,
            # Some KB may unpack to minutes of work, before it is known who asks.
            auto_decompress=False,
            max_field_size=MAX_FIELD_BYTES,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await runner.setup()
        assert runner.server is not None
        self.connections.serve(sockets, runner.server)
        self._runner = runner
        self.port = sockets[0].getsockname()[1]

    @property
    def counts(self) -> ConnectionCounts:
        return self.connections.counts

    @property
    def open_connections(self) -> int:
        return len(self.connections)

    async def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await self.connections.stop_accepting()
            await runner.cleanup()
            await self.connections.close()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=(self.connections.marking(), *self._guards))
        for root, asked in (
            ("/readyz", self._ready_checks),
            ("/livez", {}),
            ("/healthz", {name: check for name, check in self._ready_checks.items() if name == "leaderElection"}),
        ):
            checks = self._indicators.counted(root.removeprefix("/"), asked or {"ping": lambda: ""})
            application.router.add_route("*", root, _all_checks_page(root.removeprefix("/"), checks))
            application.router.add_route("*", root + "/{check}", _one_check_page(checks))
        application.router.add_delete("/metrics", self._delete_metrics)
        application.router.add_route("*", "/metrics", self._metrics)
        application.router.add_delete("/metrics/slis", self._delete_slis)
        application.router.add_route("*", "/metrics/slis", self._slis)
        application.router.add_route("*", "/configz", self._configz)
        application.add_routes(self._routes)
        paths = sorted(
            {route.resource.canonical for route in application.router.routes() if route.resource is not None}
        )
        application.router.add_get("/", partial(_index, tuple(path for path in paths if "{check}" not in path)))
        return application

    async def _slis(self, _request: web.Request) -> web.Response:
        body = await exposition(self._indicators.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _delete_slis(self, _request: web.Request) -> web.Response:
        self._indicators.reset()
        return _metrics_reset()

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=await exposition(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _delete_metrics(self, _request: web.Request) -> web.Response:
        self._reset_metrics()
        return _metrics_reset()

    async def _configz(self, _request: web.Request) -> web.Response:
        return web.json_response(self._shown_configuration())


def _metrics_reset() -> web.Response:
    return web.Response(text="metrics reset\n")


async def _index(paths: tuple[str, ...], _request: web.Request) -> web.Response:
    """The page that lists what is served here."""
    return web.json_response({"paths": list(paths)})


def _all_checks_page(name: str, checks: Mapping[str, Check]) -> Callable[[web.Request], Any]:
    async def page(request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", []))
        lines: list[str] = []
        is_well = True
        for check_name, check in checks.items():
            if check_name in excluded:
                lines.append(f"[+]{check_name} excluded: ok")
                continue
            problem = check()
            is_well = is_well and not problem
            lines.append(f"[-]{check_name} failed: {problem}" if problem else f"[+]{check_name} ok")
        if is_well and "verbose" not in request.query:
            return web.Response(text="ok")
        if unknown := sorted(excluded - checks.keys()):
            names = ",".join(f'"{one}"' for one in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        lines.append(f"{name} check {'passed' if is_well else 'failed'}")
        return web.Response(status=200 if is_well else 500, text="\n".join(lines) + "\n")

    return page


def _one_check_page(checks: Mapping[str, Check]) -> Callable[[web.Request], Any]:
    async def page(request: web.Request) -> web.Response:
        name = request.match_info["check"]
        check = checks.get(name)
        if check is None:
            raise web.HTTPNotFound(text=f"there is no check {name!r}\n")
        problem = check()
        return (
            web.Response(status=500, text=f"internal server error: {problem}\n") if problem else web.Response(text="ok")
        )

    return page
