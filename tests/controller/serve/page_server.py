"""The page and what it reads, served as in production around an engine that a test drives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from scheduler.controller.beside.shadow import Comparison
from scheduler.controller.loop import read_clock
from scheduler.controller.report.decisions import Decisions
from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve import pages
from scheduler.controller.serve.authentication import Authenticator
from scheduler.controller.serve.authorization import Authorizer, OpenPaths, guard
from scheduler.controller.serve.live import LiveLimits, live_routes
from scheduler.controller.serve.names import refusing_unasked
from scheduler.controller.serve.page_files import page_routes
from scheduler.controller.serve.questions import Questions
from scheduler.controller.serve.same_origin import of_same_site
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.settings import AccessSettings, ConnectionSettings, ServingSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.credentials import CredentialSource
from scheduler.engine.commands import RecordAttempt
from scheduler.engine.explain import PreemptionMemory
from tests.controller.serve.test_access import KUBECONFIG
from tests.controller.serve.test_questions import Rights, basis
from tests.engine.driver import Cluster


class Shadow:
    """What a shadow has compared."""

    def __init__(self) -> None:
        self.comparisons: list[Comparison] = []


@dataclass
class Served:
    url: str
    cluster: Cluster
    decisions: Decisions
    rights: Rights
    shadow: Shadow
    memory: PreemptionMemory

    seen: int = 0
    """Commands of the engine whose attempts the recorders have."""

    def schedule(self) -> None:
        """Try the next pod; the API server accepts what is written, and the recorders see the attempts."""
        self.cluster.schedule()
        while self.cluster.unanswered:
            self.cluster.succeed(self.cluster.unanswered[0])
        for command in self.cluster.sent[self.seen :]:
            if isinstance(command, RecordAttempt):
                self.decisions.observe(command.attempt)
                self.memory.observe(command.attempt)
        self.seen = len(self.cluster.sent)


@asynccontextmanager
async def page_server(
    cluster: Cluster, folder: Path | None = None, limits: LiveLimits | None = None
) -> AsyncIterator[Served]:
    """``folder``: access is restricted; a token is its user's name."""
    rights, runner, client = Rights(), None, None
    guards: tuple[Any, ...] = ()
    if folder is not None:
        application = web.Application()
        application.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", rights.tokens)
        application.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", rights.rights)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        (folder / "kubeconfig").write_text(KUBECONFIG.format(port=runner.addresses[0][1]))
        client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=str(folder / "kubeconfig")), {}))
        access = AccessSettings()
        guards = (guard(Authenticator(client), Authorizer(client, access), OpenPaths(access.open_paths)),)
    decisions, memory, shadow = Decisions(), PreemptionMemory(), Shadow()
    server = HealthServer(
        ServingSettings("127.0.0.1", 1),
        SchedulerMetrics().registry,
        ready_checks={},
        alive_checks={},
        component_config={},
        routes=(
            *pages.routes(cluster.engine, read_clock, memory),
            *Questions(cluster.engine, read_clock, basis).routes(),
            *live_routes(cluster.engine, decisions, limits),
            *page_routes(),
            pages.shadow_route(shadow),  # type: ignore[arg-type]  # stands for the writer, which needs an API server
        ),
        guards=(*guards, of_same_site("scheduler.example.com"), refusing_unasked()),
    )
    await server.start_on(0)
    try:
        yield Served(f"http://127.0.0.1:{server.port}", cluster, decisions, rights, shadow, memory)
    finally:
        await server.close()
        if client is not None:
            await client.close()
        if runner is not None:
            await runner.cleanup()
