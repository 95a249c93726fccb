"""Carries out the engine's commands with real writes. In shadow mode ``ShadowWriter`` replaces it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.inbox import Inbox
from scheduler.controller.write.events import EventRecorder
from scheduler.controller.write.outbox import Outbox
from scheduler.controller.write.writer import WriteCommand, Writer, WriterCounts
from scheduler.messages.commands import BindPod, CallExtender, RunPlugin, WriteEvent

OutgoingCommand = WriteCommand | WriteEvent | CallExtender | RunPlugin
"""A command with an effect outside the process."""


class CommandSink(Protocol):
    """Takes every command with an effect outside the process; those with a ticket are answered through the inbox."""

    @property
    def counts(self) -> WriterCounts: ...

    @property
    def merged(self) -> int:
        """The number of statuses folded into a later write of the same pod."""
        ...

    @property
    def binds_under_way(self) -> int: ...

    @property
    def open_writes(self) -> int:
        """The number of writes queued or under way, without events."""
        ...

    def has_room_for(self, pods: int) -> bool:
        """Whether there is room for the writes of this many further pods."""
        ...

    async def keep_up(self) -> None:
        """What is to be done from time to time, until cancelled."""
        ...

    async def close(self) -> None: ...

    def submit(self, command: OutgoingCommand) -> None:
        """Queue a command. Never blocks and never raises."""
        ...

    async def settle(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until nothing is open and every outcome is applied; returns whether it is."""
        ...


class CommandCarrier:
    """Passes each command to the part that carries out its type: writes, events, extenders, plugins."""

    def __init__(
        self,
        inbox: Inbox,
        outbox: Outbox,
        writer: Writer,
        events: EventRecorder,
        extenders: ExtenderCalls,
        plugins: PluginCalls,
    ) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._writer = writer
        self._events = events
        self._extenders = extenders
        self._plugins = plugins

    @property
    def counts(self) -> WriterCounts:
        return self._writer.counts

    @property
    def merged(self) -> int:
        return self._writer.merged

    @property
    def binds_under_way(self) -> int:
        return self._writer.binds_under_way + self._extenders.open_writes

    @property
    def open_writes(self) -> int:
        return self._writer.open_writes + self._extenders.open_writes + self._plugins.open_writes

    def has_room_for(self, pods: int) -> bool:
        return self._writer.has_room_for(pods) and self._extenders.has_room_for(pods)

    async def keep_up(self) -> None:
        await self._events.keep_up()

    async def close(self) -> None:
        await self._outbox.close()

    def submit(self, command: OutgoingCommand) -> None:
        match command:
            case BindPod():
                self._writer.submit(command)
            case WriteEvent():
                self._events.record(command)
            case CallExtender():
                self._extenders.submit(command)
            case RunPlugin():
                self._plugins.submit(command)
            case _:
                self._writer.submit(command)

    async def settle(self, seconds: float) -> bool:
        """Wait until all parts are idle at once: one write may cause another (a plugin that passes the bind on)."""
        try:
            async with asyncio.timeout(seconds):
                while self.open_writes or len(self._inbox):
                    await self._writer.settle(seconds)
                    await self._extenders.settle(seconds)
                    await self._plugins.settle(seconds)
                    await self._inbox.emptied()
        except TimeoutError:
            return False
        return True
