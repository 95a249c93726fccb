"""Static checks of a plugin class: whether it is complete, and whether its declarations are consistent."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from scheduler.framework.per_node import PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import (
    BackgroundPlugin,
    BindPlugin,
    FilterPlugin,
    FragmentReads,
    NormalizePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
)
from scheduler.framework.plugin_ports import CalledInShell
from scheduler.framework.post_filter import PostFilterPlugin
from scheduler.framework.profile import POINT_TYPES


class Unloadable(Exception):
    """What is wrong with a plugin's path or class, in words for the user."""


MAX_CALL_SECONDS: Final = 600.0

WANTED: Final[tuple[tuple[type[Plugin], tuple[str, ...]], ...]] = (
    (PreEnqueuePlugin, ("pre_enqueue",)),
    (QueueSortPlugin, ("sort_key",)),
    (PreFilterPlugin, ("pre_filter",)),
    (FilterPlugin, ("filter",)),
    (PerNodeFilter, ("filter_one",)),
    (PostFilterPlugin, ("post_filter",)),
    (PreScorePlugin, ("pre_score",)),
    (ScorePlugin, ("score",)),
    (PerNodeScore, ("score_one",)),
    (NormalizePlugin, ("normalize",)),
    (ReservePlugin, ("reserve", "unreserve")),
    (PermitPlugin, ("permit",)),
    (PreBindPlugin, ("pre_bind_pre_flight",)),
    (BindPlugin, ("bind",)),
    (PostBindPlugin, ("post_bind",)),
    (BackgroundPlugin, ("run",)),
)
"""Base class → the methods that a plugin derived from it must define."""

COROUTINES: Final[dict[str, type[Plugin]]] = {
    "pre_bind": PreBindPlugin,
    "bind": BindPlugin,
    "post_bind": PostBindPlugin,
    "run": BackgroundPlugin,
}


def faults_of(plugin_type: type[Plugin]) -> tuple[str, ...]:
    """The faults of the class, as texts for its author; empty for a valid one."""
    return tuple(_faults(plugin_type))


def defines(plugin_type: type[Plugin], base: type[Plugin], method: str) -> bool:
    """Whether the class, or one between it and ``base``, has a ``method`` of its own."""
    return issubclass(plugin_type, base) and getattr(plugin_type, method) is not getattr(base, method)


def _faults(plugin_type: type[Plugin]) -> Iterator[str]:
    if not any(issubclass(plugin_type, point_type) for point_type in POINT_TYPES.values()):
        yield "it takes part in no extension point (derive from FilterPlugin, ScorePlugin, ...)"
    for base, methods in WANTED:
        if plugin_type is not base and issubclass(plugin_type, base):
            yield from (f"{method} is missing" for method in methods if not defines(plugin_type, base, method))
    for method, base in COROUTINES.items():
        if defines(plugin_type, base, method) and not inspect.iscoroutinefunction(getattr(plugin_type, method)):
            yield f"{method} must be a coroutine (async def)"
    for method in _asked_at_once(plugin_type):
        if inspect.iscoroutinefunction(getattr(plugin_type, method)):
            yield f"{method} must not be a coroutine (async def)"
    if inspect.isabstract(plugin_type):
        yield "it is abstract"
    arguments: Any = plugin_type.Args
    if arguments is not None and not (isinstance(arguments, type) and issubclass(arguments, msgspec.Struct)):
        yield "Args must be a msgspec.Struct class or None"
    reads: Any = plugin_type.reads
    if not isinstance(reads, Reads):
        yield "reads must be a Reads value"
    elif Reads.UNDECLARED not in reads and _decides(plugin_type) and not defines(plugin_type, Plugin, "fragment"):
        yield "reads is declared, so fragment must be defined"
    fragment_reads: Any = plugin_type.fragment_reads
    if not isinstance(fragment_reads, FragmentReads):
        yield "fragment_reads must be a FragmentReads value"
    if issubclass(plugin_type, CalledInShell):
        wrong = limit_fault(plugin_type.time_limit_seconds)
        if wrong:
            yield wrong


def limit_fault(limit: Any) -> str:
    """What is wrong with a ``time_limit_seconds``; "" for a valid one."""
    if isinstance(limit, int | float) and 0 < limit <= MAX_CALL_SECONDS:
        return ""
    return f"time_limit_seconds must be above 0 and at most {MAX_CALL_SECONDS:g}"


def _asked_at_once(plugin_type: type[Plugin]) -> Iterator[str]:
    """The methods of the class that are called in a scheduling cycle, where nothing is awaited."""
    bases: list[type[Plugin]] = [Plugin, *[base for base, _ in WANTED]]
    for base in bases:
        if issubclass(plugin_type, base):
            for method, value in vars(base).items():
                if inspect.isfunction(value) and method not in COROUTINES:
                    yield method


def _decides(plugin_type: type[Plugin]) -> bool:
    return issubclass(plugin_type, PreFilterPlugin | FilterPlugin | PreScorePlugin | ScorePlugin)
