"""The pages under ``/debug``: explanations of one pod, the state of the queue and of the nodes, as JSON, read only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct
from msgspec.structs import asdict
from prometheus_client import CONTENT_TYPE_LATEST

from scheduler.controller.beside.shadow import AGREES, DIFFERS, UNSEEN, ShadowWriter
from scheduler.controller.serve.names import scrubbed, seen, visible, without_names
from scheduler.engine import explain
from scheduler.engine.engine import Engine
from scheduler.engine.explain_groups import group_page, waiting_groups
from scheduler.engine.node_pages import node_page, nodes_page_in_slices
from scheduler.engine.pod_resources import resource_page_in_slices
from scheduler.engine.queue_pages import grouped_queue_in_slices, queue_page_in_slices
from scheduler.engine.wanted import Wanted
from scheduler.engine.workloads import workload_page_in_slices
from scheduler.messages.now import Now
from scheduler.messages.page_limits import MAX_WAITING_LISTED
from scheduler.objects.workload_kinds import WORKLOAD_KINDS, kind_of_workload

MAX_DIGITS: Final = 9
ENCODED_AT_ONCE: Final = 200

Page = TypeVar("Page")


class _Encoded(Struct):
    """An entry of the queue as JSON: a pod, or ``count`` of them, of which ``pod`` (namespace/name) is one."""

    pod: str
    count: int
    page: bytes


class _Pages:
    """The handlers of the pages about pods, the queue and the nodes; ``routes`` says which path has which."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], Now],
        memory: explain.PreemptionMemory,
        is_leading: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._memory = memory
        self._is_leading = is_leading
        self._one_at_a_time = asyncio.Semaphore()
        """Held while a long page is made, so that the slices of two do not add up."""

    def _of_this_copy(self, page: dict[str, Any]) -> dict[str, Any]:
        return page if self._is_leading() else {"isLeading": False, **page}

    async def queue(self, request: web.Request) -> web.Response:
        stated = request.query.get("limit", "")
        if stated and not (stated.isdecimal() and len(stated) <= MAX_DIGITS):
            return web.json_response({"error": f"limit {stated!r} is not a number of pods"}, status=400)
        limit = min(int(stated), MAX_WAITING_LISTED) if stated else MAX_WAITING_LISTED
        asked = request.query
        wanted = Wanted(asked.get("namespace", ""), asked.get("profile", ""), asked.get("plugin", ""))
        is_grouped = asked.get("grouped") == "true"
        long_part = "waiting" if is_grouped else "pods"
        slices = (
            grouped_queue_in_slices(self._engine, wanted)
            if is_grouped
            else queue_page_in_slices(self._engine, limit, wanted)
        )
        async with self._one_at_a_time:
            page, pods = await _queue_body(slices)
        page["groups"] = waiting_groups(self._engine, wanted)
        listed, _, allowed = await seen(request, pods, lambda one: one.pod)
        hidden = sum(one.count for one in pods) - sum(one.count for one in listed)
        page |= {"hidden": hidden} if hidden else {}
        entries = b",".join([one.page if allowed is None else without_names(one.page, allowed) for one in listed])
        head = await scrubbed(request, self._of_this_copy(page))
        body = b'%b,"%b":[%b]}' % (head[:-1], long_part.encode(), entries)
        return web.Response(body=body, content_type="application/json")

    async def why(self, request: web.Request) -> web.Response:
        namespace = request.match_info["namespace"]
        key = f"{namespace}/{request.match_info['name']}"
        node = request.query.get("node", "")
        page = None
        if not await _is_hidden(request, namespace):
            slices = explain.pod_page_in_slices(self._engine, key, self._clock(), self._memory, node)
            page = await _in_slices(slices) or group_page(self._engine, key)
        if page is None:
            return web.json_response({"error": f"pod {key} is not known here"}, status=404)
        return await _scrubbed(request, self._of_this_copy(page))

    async def workload(self, request: web.Request) -> web.Response:
        namespace, word, name = (request.match_info[part] for part in ("namespace", "kind", "name"))
        kind = kind_of_workload(word)
        if kind is None:
            return web.json_response({"error": f"{word!r} is not one of {', '.join(WORKLOAD_KINDS)}"}, status=400)
        page: dict[str, Any] = {"pods": []}
        if not await _is_hidden(request, namespace):
            async with self._one_at_a_time:
                page = await _in_slices(workload_page_in_slices(self._engine, namespace, f"{kind}/{name}"))
        if not page["pods"]:
            error = f"no pod of {kind}/{name} is known here in namespace {namespace}"
            return web.json_response({"error": error}, status=404)
        if example := page.get("example"):
            page["example"] = await _in_slices(
                explain.pod_page_in_slices(self._engine, example, self._clock(), self._memory)
            )
        return await _scrubbed(request, self._of_this_copy(page))

    async def nodes(self, request: web.Request) -> web.Response:
        async with self._one_at_a_time:
            page = await _in_slices(nodes_page_in_slices(self._engine, request.query.get("pool", "")))
        return web.Response(body=await _encoded(page, "nodes"), content_type="application/json")

    async def node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        page = node_page(self._engine, name)
        if page is None:
            return web.json_response({"error": f"node {name} is not known here"}, status=404)
        for part in ("pods", "nominated"):
            page[part], _, _ = await seen(request, page[part], lambda one: str(one["pod"]))
        return await _scrubbed(request, page)

    async def resources(self, _request: web.Request) -> web.Response:
        async with self._one_at_a_time:
            parts = await _in_slices(resource_page_in_slices(self._engine))
        return web.Response(body=_one_by_one(parts), headers={"Content-Type": CONTENT_TYPE_LATEST})


def routes(
    engine: Engine,
    clock: Callable[[], Now],
    memory: explain.PreemptionMemory,
    is_leading: Callable[[], bool] = lambda: True,
) -> tuple[web.RouteDef, ...]:
    """The routes ``/debug/queue?limit=N&namespace=&profile=&plugin=`` or ``&grouped=true`` in place of the limit,
    ``/debug/why/NAMESPACE/NAME?node=NODE`` and ``/debug/why/NAMESPACE/KIND/NAME``, ``/debug/nodes?pool=LABEL`` and
    ``/debug/nodes/NODE``.

    They are served on the engine's event loop. The name is a pod's, or that of a group of pods if no pod has it.
    ``memory`` must observe the attempts. The pages of pods and of the queue have ``"isLeading": false`` where this copy
    does not lead.
    """
    pages = _Pages(engine, clock, memory, is_leading)
    return (
        web.get("/metrics/resources", pages.resources),
        web.get("/debug/queue", pages.queue),
        web.get("/debug/why/{namespace}/{name}", pages.why),
        web.get("/debug/why/{namespace}/{kind}/{name}", pages.workload),
        web.get("/debug/nodes", pages.nodes),
        web.get("/debug/nodes/{name}", pages.node),
    )


async def _one_by_one(parts: list[bytes]) -> AsyncGenerator[bytes, None]:
    """A body that is sent part by part."""
    for part in parts:
        yield part


async def _is_hidden(request: web.Request, namespace: str) -> bool:
    allowed = await visible(request, (namespace,))
    return allowed is not None and namespace not in allowed


async def _scrubbed(request: web.Request, page: dict[str, Any]) -> web.Response:
    return web.Response(body=await scrubbed(request, page), content_type="application/json")


async def _encoded(page: dict[str, Any], long_part: str) -> bytes:
    """The page as JSON, with the list that is long encoded in slices."""
    entries = page.pop(long_part)
    parts = []
    for start in range(0, len(entries), ENCODED_AT_ONCE):
        parts.append(msgspec.json.encode(entries[start : start + ENCODED_AT_ONCE])[1:-1])
        await asyncio.sleep(0)
    head = msgspec.json.encode(page)
    return head[:-1] + f',"{long_part}":['.encode() + b",".join(parts) + b"]}"


async def _in_slices(slices: Generator[None, None, Page]) -> Page:
    """What the generator returns; scheduling goes on between its steps."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            page: Page = end.value
            return page
        await asyncio.sleep(0)


async def _queue_body(
    slices: Generator[list[dict[str, Any]], None, dict[str, Any]],
) -> tuple[dict[str, Any], list[_Encoded]]:
    """What the generator returns, and the entries that it yields, encoded; scheduling goes on between its steps."""
    entries: list[_Encoded] = []
    while True:
        try:
            entries += [_encoded_entry(entry) for entry in next(slices)]
        except StopIteration as end:
            page: dict[str, Any] = end.value
            return page, entries
        await asyncio.sleep(0)


def _encoded_entry(entry: dict[str, Any]) -> _Encoded:
    return _Encoded(str(entry["pod"]), int(entry.get("count", 1)), msgspec.json.encode(entry))


def shadow_route(shadow: ShadowWriter) -> web.RouteDef:
    """The route ``/debug/shadow``: the newest decisions beside the other scheduler's, and how many of them agree."""

    async def page(request: web.Request) -> web.Response:
        newest = list(shadow.comparisons)
        counts = {name: sum(one.agrees == name for one in newest) for name in (AGREES, DIFFERS, UNSEEN)}
        listed, hidden, _ = await seen(request, newest, lambda one: one.pod)
        return web.json_response({"agrees": counts, "hidden": hidden, "decisions": [asdict(one) for one in listed]})

    return web.get("/debug/shadow", page)
