"""The page ``/debug/snapshot``: the scheduler's state as a segment without inputs, for ``tandem snapshot``."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Final

from aiohttp import web

from scheduler.controller.record.segments import About, SegmentWriter, segment_head
from scheduler.controller.serve.authorization import refusal
from scheduler.controller.serve.names import NAMES_PATH, sees_all
from scheduler.engine.engine import Engine
from scheduler.engine.recording.checkpoint import CheckpointError
from scheduler.engine.recording.door import Beginning, History
from scheduler.messages.now import Now

PATH = "/debug/snapshot"
PAUSE_SECONDS: Final = 0.01
MAX_TRIES: Final = 100


def snapshot_route(
    engine: Engine, history: History, about: Callable[[], About], clock: Callable[[], Now]
) -> web.RouteDef:
    """Served on the engine's event loop: the state is taken there in one step, and encoded and compressed in a
    thread, where ``about`` is called, too."""
    one_at_a_time = asyncio.Semaphore()

    async def snapshot(request: web.Request) -> web.Response:
        if not await sees_all(request):
            return refusal(403, "Forbidden", f"a snapshot names every pod: it takes the right to get {NAMES_PATH}")
        async with one_at_a_time:
            try:
                await _between_cycles(engine)
                beginning = history.snapshot(engine, clock())
            except CheckpointError as error:
                return web.json_response({"error": f"{error}; ask again"}, status=503)
            body = await asyncio.to_thread(_segment, about, beginning)
        return web.Response(body=body, content_type="application/octet-stream")

    return web.get(PATH, snapshot)


async def _between_cycles(engine: Engine) -> None:
    """Return when no cycle is paused, or after a second: then the snapshot is refused."""
    for _ in range(MAX_TRIES):
        if not engine.is_paused:
            return
        await asyncio.sleep(PAUSE_SECONDS)


def _segment(about: Callable[[], About], beginning: Beginning) -> bytes:
    file = io.BytesIO()
    SegmentWriter(file, segment_head(about(), beginning)).end()
    return file.getvalue()
