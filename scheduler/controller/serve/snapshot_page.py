"""The page ``/debug/snapshot``: the scheduler's state as a segment without inputs, for ``tandem snapshot``."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Final

from aiohttp import web

from scheduler.controller.between_cycles import BetweenCycles
from scheduler.controller.record.segments import About, SegmentWriter, segment_head
from scheduler.controller.serve.authorization import refusal
from scheduler.controller.serve.names import NAMES_PATH, sees_all
from scheduler.controller.threads import in_thread
from scheduler.engine.engine import Engine
from scheduler.engine.recording.checkpoint import CheckpointError
from scheduler.engine.recording.door import Beginning, History
from scheduler.messages.now import Now

PATH = "/debug/snapshot"
WAIT_SECONDS: Final = 6.0
"""Seconds to wait for the end of a cycle. An extender's answer is waited for five, unless its configuration says
more."""


def snapshot_route(
    engine: Engine, history: History, about: Callable[[], About], clock: Callable[[], Now], between: BetweenCycles
) -> web.RouteDef:
    """The route of the snapshot, served on the engine's event loop: the state is taken there in one step, and encoded
    and compressed in a thread, where ``about`` is called, too."""
    one_at_a_time = asyncio.Semaphore()

    async def beginning() -> Beginning:
        """The engine's state between two cycles. Raises CheckpointError and TimeoutError."""
        taken: list[Beginning] = []

        def take() -> bool:
            if not engine.is_paused:
                taken.append(history.snapshot(engine, clock()))
            return bool(taken)

        waiting = between.add(take)
        between.try_all()
        await asyncio.wait_for(waiting, WAIT_SECONDS)
        return taken[0]

    async def snapshot(request: web.Request) -> web.Response:
        if not await sees_all(request):
            return refusal(403, "Forbidden", f"a snapshot names every pod: it takes the right to get {NAMES_PATH}")
        async with one_at_a_time:
            try:
                body = await in_thread(_segment, about, await beginning())
            except CheckpointError as error:
                return web.json_response({"error": f"{error}; ask again"}, status=503)
            except TimeoutError:
                text = f"a cycle has been under way for {WAIT_SECONDS:g} seconds; ask again"
                return web.json_response({"error": text}, status=503)
        return web.Response(body=body, content_type="application/octet-stream")

    return web.get(PATH, snapshot)


def _segment(about: Callable[[], About], beginning: Beginning) -> bytes:
    file = io.BytesIO()
    SegmentWriter(file, segment_head(about(), beginning)).end()
    return file.getvalue()
