"""Makes the server of the pages from the shell's parts: imported when the start is over (``late_server``)."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp.web import RouteDef
from msgspec import Struct

from scheduler.controller.beside.shadow import ShadowWriter
from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.authorization import guards
from scheduler.controller.serve.late_server import LateServer
from scheduler.controller.serve.names import refusing_unasked
from scheduler.controller.serve.page_steps import watching_steps
from scheduler.controller.serve.pages import shadow_route
from scheduler.controller.serve.same_origin import of_same_site
from scheduler.controller.serve.server import Check, HealthServer
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.step_watch import Step
from scheduler.controller.write.client import ApiClient


class WhatPagesNeed(Struct, frozen=True):
    """Parts of the shell that pages show or use. ``reviews``: the client that asks for visitors' rights."""

    hostname: str
    metrics: SchedulerMetrics
    ready_checks: Mapping[str, Check]
    routes: tuple[RouteDef, ...]
    shadow: ShadowWriter | None
    step: Step
    reviews: ApiClient
    server: LateServer


def load_server(settings: ServingSettings, needed: WhatPagesNeed) -> HealthServer:
    """The server of the pages, from all that they show or use."""
    routes = needed.routes
    if needed.shadow is not None:
        routes += (shadow_route(needed.shadow),)
    return HealthServer(
        settings,
        needed.metrics.registry,
        ready_checks=needed.ready_checks,
        configz=needed.server.configz,
        reset_metrics=needed.metrics.instruments.reset,
        routes=routes,
        guards=(
            watching_steps(needed.step),
            *guards(needed.reviews, settings.access),
            of_same_site(needed.hostname),
            refusing_unasked(),
        ),
    )
