"""The pages under ``/debug``: what the scheduler would say about one pod, and about its queue. JSON, read only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from aiohttp import web

from scheduler.controller.beside.shadow import AGREES, DIFFERS, UNSEEN, ShadowWriter
from scheduler.engine import explain
from scheduler.engine.engine import Engine
from scheduler.messages.now import Now


def routes(engine: Engine, clock: Callable[[], Now], memory: explain.PreemptionMemory) -> tuple[web.RouteDef, ...]:
    """``/debug/queue`` and ``/debug/why/NAMESPACE/NAME``. Served on the event loop that drives the engine.

    ``memory`` observes the attempts."""

    async def queue(_request: web.Request) -> web.Response:
        return web.json_response(explain.queue_page(engine))

    async def why(request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        page = explain.pod_page(engine, key, clock(), memory)
        if page is None:
            return web.json_response({"error": f"pod {key} is not known here"}, status=404)
        return web.json_response(page)

    return (web.get("/debug/queue", queue), web.get("/debug/why/{namespace}/{name}", why))


def shadow_route(shadow: ShadowWriter) -> web.RouteDef:
    """``/debug/shadow``: the newest decisions beside those of the other scheduler, and how many of them agree."""

    async def page(_request: web.Request) -> web.Response:
        newest = list(shadow.comparisons)
        counts = {name: sum(one.agrees == name for one in newest) for name in (AGREES, DIFFERS, UNSEEN)}
        return web.json_response({"agrees": counts, "decisions": [asdict(one) for one in newest]})

    return web.get("/debug/shadow", page)
