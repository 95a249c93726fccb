"""Runs user plugins' PreBind, Bind and PostBind: the only plugin code that may await, and that may write.

None of them starts without the right to write, and their requests through the client that they are given are fenced.
Requests by other means are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from scheduler.cluster.pod_info import PodInfo
from scheduler.controller.report.plugin_watch import PLUGIN_WATCH
from scheduler.controller.threads import RUNS_PLUGIN
from scheduler.controller.write.fence import Departure, fenced
from scheduler.controller.write.leadership import Leadership, LeadershipLost
from scheduler.errors import type_and_message
from scheduler.messages.commands import RunPlugin, StopPlugins
from scheduler.messages.status import SKIP, Refusal, Skip, failure
from scheduler.messages.stimuli import PluginFinished

PluginCall = Callable[[PodInfo, str], Awaitable[Refusal | Skip | None]]
"""``call(pod, node)``: None is success, SKIP leaves it to the next Bind plugin."""


class PluginCalls:
    """``calls`` by (profile, extension point, plugin). A plugin that raises is named in its pod's failure."""

    def __init__(
        self,
        on_finished: Callable[[PluginFinished], None],
        leadership: Leadership,
        calls: Mapping[tuple[str, str, str], PluginCall],
    ) -> None:
        self._on_finished = on_finished
        self._leadership = leadership
        self._calls = calls
        self._running: dict[asyncio.Task[None], str] = {}
        """The calls under way, with the pod's UID where they are of PreBind."""

    def add(self, calls: Mapping[tuple[str, str, str], PluginCall]) -> None:
        """Add the calls of a new configuration. Known ones stay unless replaced: bindings may be under way."""
        self._calls = {**self._calls, **calls}

    def submit(self, command: RunPlugin) -> None:
        task = asyncio.create_task(self._run(command), name=f"{command.plugin} {command.point}")
        self._running[task] = command.pod.uid if command.point == "PreBind" else ""
        task.add_done_callback(self._running.pop)

    def stop(self, command: StopPlugins) -> None:
        """Cancel the pod's PreBind calls; those of its next attempt must not run beside them."""
        for task, uid in self._running.items():
            if uid == command.uid:
                task.cancel()

    @property
    def open_writes(self) -> int:
        """The number of calls under way."""
        return len(self._running)

    async def settle(self, seconds: float) -> None:
        """Wait at most ``seconds`` for the calls under way."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds)

    async def close(self) -> None:
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, command: RunPlugin) -> None:
        RUNS_PLUGIN.set(True)
        call = self._calls.get((command.profile, command.point, command.plugin))
        answer: Refusal | Skip | None
        try:
            if call is None:
                answer = failure(f"plugin {command.plugin} has no {command.point} to run")
            else:
                departure = Departure(self._leadership)
                departure.leave()
                with fenced(departure):
                    answer = await call(command.pod, command.node)
        except LeadershipLost as error:
            answer = failure(str(error))
        except Exception as error:  # noqa: BLE001 - the pod's failure has it in the plugin's name
            PLUGIN_WATCH.raised(error, command.plugin, command.point, command.pod.key, node=command.node)
            answer = failure(type_and_message(error))
        if not command.ticket:
            return
        if answer is SKIP or isinstance(answer, Skip):
            self._on_finished(PluginFinished(command.ticket, None, is_skip=True))
        else:
            self._on_finished(PluginFinished(command.ticket, answer.by(command.plugin) if answer else None))
