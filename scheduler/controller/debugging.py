"""The pages under ``/debug``: what the scheduler would say about one pod, and about its queue. JSON, read only."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from scheduler.engine import explain
from scheduler.engine.engine import Engine
from scheduler.framework.now import Now


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
