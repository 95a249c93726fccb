"""The parts that the shell runs: the engine, and what else only the composition root can make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from scheduler.controller.between_cycles import BetweenCycles
from scheduler.controller.calls.background import BackgroundCalls
from scheduler.controller.calls.extender_tls import ExtenderTLS
from scheduler.controller.calls.plugin_calls import PluginCall
from scheduler.controller.loop import EnginePort
from scheduler.controller.operator import OperatorCallbacks
from scheduler.controller.record.recorder import Recorder
from scheduler.controller.reload import Prepare
from scheduler.controller.report.metrics import EngineGauges
from scheduler.engine.attempt import Attempt
from scheduler.objects.kinds import Kind


class Parts(Struct, frozen=True):
    """The shell's parts. ``gauges`` is usually the engine; ``observers`` receive each attempt (``explain``, the
    pages)."""

    engine: EnginePort
    gauges: EngineGauges | None = None
    plugin_calls: Mapping[tuple[str, str, str], PluginCall] = field(default_factory=dict)
    background: BackgroundCalls = field(default_factory=dict)
    extender_ssl: Mapping[int, ExtenderTLS] = field(default_factory=dict)
    has_extenders: bool = False
    kinds_sent_whole: frozenset[Kind] = frozenset()
    """The kinds whose objects are sent to extenders unchanged."""
    routes: Callable[[Callable[[], bool]], tuple[Any, ...]] = lambda _: ()
    """Imports and makes the pages, of type ``aiohttp.web.RouteDef``: called in a thread, after the start, with what
    says whether this copy leads."""
    observers: tuple[Callable[[Attempt], None], ...] = ()
    callbacks: OperatorCallbacks = field(default_factory=OperatorCallbacks)
    recorder: Recorder | None = None
    """Flushed after each slice, closed at the end."""
    between_cycles: BetweenCycles = field(default_factory=BetweenCycles)
    prepare: Prepare | None = None
    """Checks a new configuration; None: the configuration cannot change before the next start."""
    unknown_binds: Callable[[], int] = lambda: 0
    """How many bindings have had no conclusive answer: they are sent again."""
    culprit: Callable[[], Mapping[str, object]] = dict
    """What to say of the last decision if it was slow: its pod and its extension points."""
    load_selectors: Callable[[], None] = lambda: None
    """Called in a thread when the first DeviceClass or ResourceSlice comes: what decides about devices takes some 0.2 s
    to load."""


EngineFactory = Callable[[], Parts]
