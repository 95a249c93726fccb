"""An API server that says what each user may do, and servers of pages that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Middleware

from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.authentication import Authenticator
from scheduler.controller.serve.authorization import Authorizer, OpenPaths, guard
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.serve.serving_settings import AccessSettings, ServingSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from tests.controller.serve.test_access import KUBECONFIG


class Rights:
    """An API server: the token is the user's name; ``allowed`` says what each may do."""

    def __init__(self) -> None:
        self.allowed: set[tuple[str, str, str]] = set()
        """(user, verb, path or namespace)"""
        self.asked: list[dict[str, Any]] = []

    async def tokens(self, request: web.Request) -> web.Response:
        name = (await request.json())["spec"]["token"]
        return web.json_response({"status": {"authenticated": True, "user": {"username": name}}}, status=201)

    async def rights(self, request: web.Request) -> web.Response:
        spec = (await request.json())["spec"]
        self.asked.append(spec)
        if "nonResourceAttributes" in spec:
            asked = spec["nonResourceAttributes"]
            key = (spec["user"], asked["verb"], asked["path"])
        else:
            asked = spec["resourceAttributes"]
            assert asked["resource"] == "pods"
            key = (spec["user"], asked["verb"], asked["namespace"])
        return web.json_response({"status": {"allowed": key in self.allowed}}, status=201)


@asynccontextmanager
async def guarded(rights: Rights, folder: Path | None) -> AsyncIterator[tuple[Middleware, ...]]:
    """The middlewares that ask the API server; none without a ``folder``, where its kubeconfig is written."""
    if folder is None:
        yield ()
        return
    application = web.Application()
    application.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", rights.tokens)
    application.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", rights.rights)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    (folder / "kubeconfig").write_text(KUBECONFIG.format(port=runner.addresses[0][1]))
    client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=str(folder / "kubeconfig")), {}))
    access = AccessSettings()
    try:
        yield (guard(Authenticator(client), Authorizer(client, access), OpenPaths(access.open_paths)),)
    finally:
        await client.close()
        await runner.cleanup()


@asynccontextmanager
async def served(routes: tuple[web.RouteDef, ...], guards: tuple[Middleware, ...]) -> AsyncIterator[str]:
    """The URL of a server with these pages."""
    server = HealthServer(
        ServingSettings("127.0.0.1", 1),
        SchedulerMetrics().registry,
        ready_checks={},
        routes=routes,
        guards=guards,
    )
    await server.start_on(0)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await server.close()
