"""Carries out what the engine wants done, with real writes. In shadow mode ``ShadowWriter`` stands in its place."""

from __future__ import annotations

import asyncio
from typing import Protocol

from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.inbox import Inbox
from scheduler.controller.write.events import EventRecorder
from scheduler.controller.write.outbox import Outbox
from scheduler.controller.write.writer import WriteCommand, Writer, WriterCounts
from scheduler.messages.commands import CallExtender, RunPlugin, WriteEvent

OutgoingCommand = WriteCommand | WriteEvent | CallExtender | RunPlugin
"""A command that concerns somebody outside of the process."""


class CommandSink(Protocol):
    """Takes every command that concerns somebody outside; those with a ticket are answered through the inbox."""

    @property
    def counts(self) -> WriterCounts: ...

    @property
    def merged(self) -> int:
        """Statuses that a later write of the same pod stood for, so far."""
        ...

    @property
    def binds_under_way(self) -> int: ...

    @property
    def open_writes(self) -> int:
        """Writes queued or under way, events not included."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether another pod may be decided on."""
        ...

    def start(self) -> None: ...

    async def close(self) -> None: ...

    def submit(self, command: OutgoingCommand) -> None:
        """Never blocks and never raises."""
        ...

    async def settle(self, seconds: float) -> bool:
        """Wait until nothing is open and every outcome is applied, for ``seconds`` at most; whether it came to that."""
        ...


class CommandCarrier:
    """Writes, events, extenders and plugins: each command goes to the part that carries out its type."""

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

    @property
    def has_room(self) -> bool:
        return self._writer.has_room

    def start(self) -> None:
        self._events.start()

    async def close(self) -> None:
        await self._events.close()
        await self._outbox.close()

    def submit(self, command: OutgoingCommand) -> None:
        match command:
            case WriteEvent():
                self._events.record(command)
            case CallExtender():
                self._extenders.submit(command)
            case RunPlugin():
                self._plugins.submit(command)
            case _:
                self._writer.submit(command)

    async def settle(self, seconds: float) -> bool:
        """One write may bring another (a plugin that leaves the bind to the next one): until all is quiet at once."""
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
