"""Runs the background parts of user plugins while this replica schedules. Their requests through the client that they
are given are fenced: none leaves once the Lease is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from scheduler.controller.report.plugin_watch import PLUGIN_WATCH
from scheduler.controller.threads import RUNS_PLUGIN
from scheduler.controller.write.fence import Departure, fenced
from scheduler.controller.write.leadership import Leadership
from scheduler.framework.plugin_ports import WaitingPod
from scheduler.messages.stimuli import PermitDecided, PodsActivated

FIRST_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 60.0
"""Seconds before a part that raised is started again: the first, doubled each time up to the second."""
STOP_SECONDS: Final = 2.0
"""Seconds after which a part that ignores its cancellation is abandoned."""


class PluginInbox(Struct, frozen=True):
    """The engine's interface for background parts: ``waiting`` pods by plugin name, and ``feed`` for decisions."""

    waiting: Callable[[str], Sequence[WaitingPod]]
    feed: Callable[[PermitDecided | PodsActivated], None]


BackgroundCall = Callable[[PluginInbox], Awaitable[None]]
BackgroundCalls = Mapping[tuple[str, str], BackgroundCall]
"""By profile and plugin."""


class BackgroundParts:
    """``start`` when this replica schedules, ``replace`` at a reload, ``stop`` at the end; all on the event loop."""

    def __init__(self, inbox: PluginInbox, calls: BackgroundCalls, leadership: Leadership) -> None:
        self._inbox = inbox
        self._leadership = leadership
        self._calls = calls
        self._is_started = False
        self._running: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start all parts; further calls do nothing."""
        if not self._is_started:
            self._is_started = True
            self._start_all()

    def replace(self, calls: BackgroundCalls) -> None:
        """Replace the running parts by those of a new configuration, which start once these have ended."""
        replaced = tuple(self._running)
        for task in replaced:
            task.cancel()
        self._calls = calls
        if self._is_started:
            self._start_all(replaced)

    async def stop(self) -> None:
        self._is_started = False
        running = tuple(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=STOP_SECONDS)

    def _start_all(self, replaced: Sequence[asyncio.Task[None]] = ()) -> None:
        for (profile, plugin), call in self._calls.items():
            run = self._run(profile, plugin, call, replaced)
            task = asyncio.create_task(run, name=f"{plugin} in the background")
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(
        self, profile: str, plugin: str, call: BackgroundCall, replaced: Sequence[asyncio.Task[None]]
    ) -> None:
        RUNS_PLUGIN.set(True)
        if replaced:
            await asyncio.wait(replaced, timeout=STOP_SECONDS)
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                with fenced(Departure(self._leadership)):
                    await call(self._inbox)
            except Exception as error:  # noqa: BLE001 - reported in the plugin's name, and started again
                PLUGIN_WATCH.raised(error, plugin, "Run", "", profile=profile, again_in=pause)
            else:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
