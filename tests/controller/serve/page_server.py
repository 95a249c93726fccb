"""The page and what it reads, served as in production around an engine that a test drives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from scheduler.cli.recorded import stated_of
from scheduler.config.loading import load
from scheduler.controller.beside.shadow import Comparison
from scheduler.controller.between_cycles import BetweenCycles
from scheduler.controller.loop import read_clock
from scheduler.controller.record.segments import About
from scheduler.controller.report.decisions import Decisions
from scheduler.controller.serve import pages
from scheduler.controller.serve.live import LiveLimits, live_routes
from scheduler.controller.serve.names import refusing_unasked
from scheduler.controller.serve.page_files import page_routes
from scheduler.controller.serve.questions import Questions
from scheduler.controller.serve.same_origin import of_same_site
from scheduler.controller.serve.snapshot_page import snapshot_route
from scheduler.engine.commands import RecordAttempt
from scheduler.engine.explain import PreemptionMemory
from scheduler.engine.recording.door import History
from tests.controller.serve.asking import basis
from tests.controller.serve.rights import Rights, guarded, served
from tests.engine.driver import Cluster


class Shadow:
    """What a shadow has compared."""

    def __init__(self) -> None:
        self.comparisons: list[Comparison] = []


@dataclass
class Served:
    url: str
    paths: tuple[str, ...]
    """All that is served here."""
    cluster: Cluster
    decisions: Decisions
    rights: Rights
    shadow: Shadow
    memory: PreemptionMemory
    between_cycles: BetweenCycles

    is_leading: bool = True
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
    rights, decisions, memory, shadow = Rights(), Decisions(), PreemptionMemory(), Shadow()
    served_here: list[Served] = []

    def is_leading() -> bool:
        return all(each.is_leading for each in served_here)

    history, between_cycles = History(cluster.engine, stated_of(load())), BetweenCycles()
    routes = (
        snapshot_route(cluster.engine, history, lambda: About("", "", ""), read_clock, between_cycles),
        *pages.routes(cluster.engine, read_clock, memory, is_leading),
        *Questions(cluster.engine, read_clock, basis).routes(),
        *live_routes(cluster.engine, decisions, limits, is_leading),
        *page_routes(),
        pages.shadow_route(shadow),  # type: ignore[arg-type]  # stands for the writer, which needs an API server
    )
    browsers = (of_same_site("scheduler.example.com"), refusing_unasked())
    async with guarded(rights, folder) as guards, served(routes, (*guards, *browsers)) as url:
        paths = tuple(route.path for route in routes)
        served_here.append(Served(url, paths, cluster, decisions, rights, shadow, memory, between_cycles))
        yield served_here[0]
