"""The pages under ``/debug``: explanations of one pod and the state of the queue, as JSON, read only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Final, TypeVar

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from scheduler.controller.beside.shadow import AGREES, DIFFERS, UNSEEN, ShadowWriter
from scheduler.engine import explain
from scheduler.engine.engine import Engine
from scheduler.engine.explain_groups import group_page, waiting_groups
from scheduler.engine.pod_resources import resource_page_in_slices
from scheduler.engine.workloads import workload_page_in_slices
from scheduler.messages.now import Now
from scheduler.messages.page_limits import MAX_WAITING_LISTED
from scheduler.objects.workload_kinds import WORKLOAD_KINDS, kind_of_workload

MAX_DIGITS: Final = 9

Page = TypeVar("Page")


def routes(engine: Engine, clock: Callable[[], Now], memory: explain.PreemptionMemory) -> tuple[web.RouteDef, ...]:
    """The routes ``/debug/queue?limit=N&namespace=&profile=&plugin=``, ``/debug/why/NAMESPACE/NAME?node=NODE`` and
    ``/debug/why/NAMESPACE/KIND/NAME``.

    They are served on the engine's event loop.

    The name is a pod's, or that of a group of pods if no pod has it. ``memory`` must observe the attempts."""

    one_at_a_time = asyncio.Semaphore()

    async def queue(request: web.Request) -> web.Response:
        stated = request.query.get("limit", "")
        if stated and not (stated.isdecimal() and len(stated) <= MAX_DIGITS):
            return web.json_response({"error": f"limit {stated!r} is not a number of pods"}, status=400)
        limit = min(int(stated), MAX_WAITING_LISTED) if stated else MAX_WAITING_LISTED
        asked = request.query
        wanted = explain.Wanted(asked.get("namespace", ""), asked.get("profile", ""), asked.get("plugin", ""))
        async with one_at_a_time:
            return web.Response(body=await _queue_body(engine, limit, wanted), content_type="application/json")

    async def why(request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        node = request.query.get("node", "")
        page = explain.pod_page(engine, key, clock(), memory, node) or group_page(engine, key)
        if page is None:
            return web.json_response({"error": f"pod {key} is not known here"}, status=404)
        return web.json_response(page)

    async def workload(request: web.Request) -> web.Response:
        namespace, word, name = (request.match_info[part] for part in ("namespace", "kind", "name"))
        kind = kind_of_workload(word)
        if kind is None:
            return web.json_response({"error": f"{word!r} is not one of {', '.join(WORKLOAD_KINDS)}"}, status=400)
        async with one_at_a_time:
            page = await _in_slices(workload_page_in_slices(engine, namespace, f"{kind}/{name}"))
        if not page["pods"]:
            error = f"no pod of {kind}/{name} is known here in namespace {namespace}"
            return web.json_response({"error": error}, status=404)
        if example := page.get("example"):
            page["example"] = explain.pod_page(engine, example, clock(), memory)
        return web.json_response(page)

    async def resources(_request: web.Request) -> web.Response:
        async with one_at_a_time:
            body = await _in_slices(resource_page_in_slices(engine))
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return (
        web.get("/metrics/resources", resources),
        web.get("/debug/queue", queue),
        web.get("/debug/why/{namespace}/{name}", why),
        web.get("/debug/why/{namespace}/{kind}/{name}", workload),
    )


async def _in_slices(slices: Generator[None, None, Page]) -> Page:
    """What the generator returns; scheduling goes on between its steps."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            page: Page = end.value
            return page
        await asyncio.sleep(0)


async def _queue_body(engine: Engine, limit: int, wanted: explain.Wanted) -> bytes:
    """The queue's page, built in slices of about a millisecond, between which scheduling goes on."""
    pods: list[bytes] = []
    slices = explain.queue_page_in_slices(engine, limit, wanted)
    while True:
        try:
            pods += map(msgspec.json.encode, next(slices))
        except StopIteration as end:
            counts = msgspec.json.encode(end.value)
            groups = msgspec.json.encode(waiting_groups(engine))
            return b'{"counts":' + counts + b',"groups":' + groups + b',"pods":[' + b",".join(pods) + b"]}"
        await asyncio.sleep(0)


def shadow_route(shadow: ShadowWriter) -> web.RouteDef:
    """The route ``/debug/shadow``: the newest decisions beside the other scheduler's, and how many of them agree."""

    async def page(_request: web.Request) -> web.Response:
        newest = list(shadow.comparisons)
        counts = {name: sum(one.agrees == name for one in newest) for name in (AGREES, DIFFERS, UNSEEN)}
        return web.json_response({"agrees": counts, "decisions": [asdict(one) for one in newest]})

    return web.get("/debug/shadow", page)
