"""Plugins made of functions: `scripted("Picky", filter=lambda pod, node: unschedulable("no"))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler.framework.per_node import PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import (
    EMPTY_STATE,
    BindPlugin,
    NormalizePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreFlight,
    PreScorePlugin,
    Reads,
    ReservePlugin,
)
from scheduler.framework.post_filter import PostFilterPlugin

Answer = Callable[..., Any]

_CALLS: dict[str, list[str]] = {}


def calls_of(plugin: type[Plugin]) -> list[str]:
    """What the plugin was asked, in order: ``reserve a`` and so on."""
    return _CALLS[plugin.name]


def scripted(
    name: str,
    *,
    pre_filter: Answer | None = None,
    filter: Answer | None = None,
    post_filter: Answer | None = None,
    pre_score: Answer | None = None,
    score: Answer | None = None,
    normalize: Answer | None = None,
    reserve: Answer | None = None,
    unreserve: Answer | None = None,
    permit: Answer | None = None,
    pre_flight: Answer | None = None,
    progress: Answer | None = None,
    bind: bool = False,
    post_bind: bool = False,
    reads: Reads = Reads.UNDECLARED,
    **attributes: Any,
) -> type[Plugin]:
    """A plugin class that takes part in the points given. The functions get the pod's name and, where there is one, the
    node's; ``normalize`` gets the array of scores; ``post_filter`` the context."""
    calls = _CALLS[name] = []
    bases: list[type] = []
    methods: dict[str, Any] = {"name": name, "reads": reads, **attributes}

    def note(point: str, answer: Answer, *words: str) -> Any:
        calls.append(" ".join((point, *words)))
        return answer(*words)

    if pre_filter is not None:
        bases.append(PreFilterPlugin)
        methods["pre_filter"] = lambda self, pod, view: _or_empty(note("pre_filter", pre_filter, pod.name))
    if filter is not None:
        bases.append(PerNodeFilter)
        methods["filter_one"] = lambda self, state, pod, node, there: note("filter", filter, pod.name, node.key)
    if post_filter is not None:
        bases.append(PostFilterPlugin)
        methods["post_filter"] = lambda self, context: post_filter(context)
    if pre_score is not None:
        bases.append(PreScorePlugin)
        methods["pre_score"] = lambda self, pod, view, rows: _or_empty(note("pre_score", pre_score, pod.name))
    if normalize is not None:
        bases.append(NormalizePlugin)
        methods["normalize"] = lambda self, state, scores, view, rows: normalize(np.asarray(scores))
    if score is not None:
        bases.append(PerNodeScore)
        methods["score_one"] = lambda self, state, pod, node, there: note("score", score, pod.name, node.key)
    if reserve is not None or unreserve is not None:
        bases.append(ReservePlugin)
        methods["reserve"] = lambda self, state, pod, view, node: (
            note("reserve", reserve or _nothing, pod.name, node) or ()
        )
        methods["unreserve"] = lambda self, state, pod, view, node: (
            note("unreserve", unreserve or _nothing, pod.name, node) or ()
        )
    if permit is not None:
        bases.append(PermitPlugin)
        methods["permit"] = lambda self, state, pod, view, node: note("permit", permit, pod.name, node)
    if pre_flight is not None:
        bases.append(PreBindPlugin)
        methods["pre_bind_pre_flight"] = lambda self, state, pod, view, node: note(
            "pre_flight", pre_flight, pod.name, node
        )
        methods["pre_bind_progress"] = lambda self, state, pod, view, node: note(
            "progress", progress or _done, pod.name, node
        )
    if bind:
        bases.append(BindPlugin)
    if post_bind:
        bases.append(PostBindPlugin)
    return type(name, tuple(bases), methods)


def works(*_: str) -> PreFlight:
    """A PreBind plugin that has something to do in the shell."""
    return PreFlight()


def works_in_parallel(*_: str) -> PreFlight:
    return PreFlight(is_parallel=True)


def broken(*_: Any) -> Any:
    raise RuntimeError("boom")


def _nothing(*_: str) -> None:
    return None


def _done(*_: str) -> bool:
    return True


def _or_empty(answer: Any) -> Any:
    return EMPTY_STATE if answer is None else answer
