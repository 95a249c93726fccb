"""Hands each of the engine's commands to the part of the shell that carries it out."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from scheduler.controller.beside.shadow import ShadowWriter
from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.write.events import EventRecorder
from scheduler.controller.write.writer import Writer
from scheduler.engine.attempt import Attempt
from scheduler.engine.commands import Command, RecordAttempt
from scheduler.messages.commands import CallExtender, ReportRepairs, RunPlugin, TellBelieved, WriteEvent

log = structlog.get_logger()


class Dispatcher:
    """``dispatch`` never raises and never awaits. ``recorders`` are told of each attempt that is over, ``reconcile`` of
    what a comparison of the cache needs and brings. With a ``shadow`` all that writes goes there, and no event is
    written.
    """

    def __init__(
        self,
        writer: Writer | ShadowWriter,
        events: EventRecorder,
        extenders: ExtenderCalls,
        plugins: PluginCalls,
        recorders: tuple[Callable[[Attempt], None], ...],
        reconcile: Callable[[TellBelieved | ReportRepairs], None] = lambda _: None,
    ) -> None:
        self._writer = writer
        self._shadow = writer if isinstance(writer, ShadowWriter) else None
        self._events = events
        self._extenders = extenders
        self._plugins = plugins
        self._recorders = recorders
        self._reconcile = reconcile

    def dispatch(self, command: Command) -> None:
        if isinstance(command, RecordAttempt):
            self._record(command.attempt)
        elif isinstance(command, WriteEvent):
            if self._shadow is None:
                self._events.record(command)
        elif isinstance(command, CallExtender):
            if self._shadow is not None and command.binds is not None:
                self._shadow.call_binder(command)
            else:
                self._extenders.submit(command)
        elif isinstance(command, RunPlugin):
            if self._shadow is not None:
                self._shadow.run_plugin(command)
            else:
                self._plugins.submit(command)
        elif isinstance(command, TellBelieved | ReportRepairs):
            self._reconcile(command)
        else:
            self._writer.submit(command)

    def _record(self, attempt: Attempt) -> None:
        for recorder in self._recorders:
            try:
                recorder(attempt)
            except Exception:
                log.exception("Attempt could not be recorded", pod=attempt.pod)
