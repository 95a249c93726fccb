"""Filters on single nodes, with the nominated pods added (docs/kube-scheduler/preemption.md §5.4).

A node with nominated pods must fit twice: with them, since they will come (resources, anti-affinity), and without
them, since they may not (affinity).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.errors import PluginError
from scheduler.framework.asked_filters import AskedFilter, counts_pods
from scheduler.framework.plugin import EMPTY_STATE, FilterPlugin, State
from scheduler.framework.plugin_times import PluginTimes
from scheduler.messages.status import Refusal, Skip

States = Mapping[str, State | Skip]

_FEW_ROWS = 3
"""Rows up to which one by one is quicker: 12 µs each, where a table of a few takes 38 to 41 with all that is asked."""


def filter_one_row(
    filters: Sequence[FilterPlugin],
    states: States,
    pod: PodInfo,
    view: View,
    row: int,
    times: PluginTimes | None = None,
) -> Refusal | None:
    """The first refusal, signed, or None. Plugins that skipped are not called; ``times``: where each call is noted.
    Raises PluginError."""
    for plugin in filters:
        state = states.get(plugin.name, EMPTY_STATE)
        if isinstance(state, Skip):
            continue
        ask = plugin.filter_row if times is None else times.timing(plugin.filter_row, plugin.name, "Filter")
        try:
            refusal = ask(state, pod, view, row)
        except Exception as error:
            raise PluginError(plugin.name, "Filter", error) from error
        if refusal is not None:
            return refusal.by(plugin.name)
    return None


def with_pods(states: States, view: View, row: int, pods: Sequence[PodInfo], sign: int) -> States:
    """The states with pods added to (+1) or removed from (-1) a row of a private view, whose table is changed, too.

    Raises PluginError.
    """
    counting = [name for name, state in states.items() if counts_pods(state)]
    changed = dict(states) if counting else states
    for other in pods:
        if sign > 0:
            view.add_pod(other, row)
        else:
            view.remove_pod(other.uid, row)
        for name in counting:
            changed[name] = _with_pod(name, changed[name], view, row, other, sign)  # type: ignore[index,arg-type]
    return changed


def _with_pod(plugin: str, state: State, view: View, row: int, other: PodInfo, sign: int) -> State:
    """The plugin's state with one pod more or less on the row. Raises PluginError."""
    try:
        changed: object = state.with_pod(view, row, other, sign)
        if not isinstance(changed, State):
            raise TypeError(f"answered {type(changed).__name__}; a State is wanted")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(plugin, "AddPod" if sign > 0 else "RemovePod", error) from error
    return changed


def filter_with_nominated(
    filters: Sequence[FilterPlugin],
    states: States,
    pod: PodInfo,
    view: View,
    row: int,
    nominated: Sequence[PodInfo],
    times: PluginTimes | None = None,
) -> Refusal | None:
    """Both passes for one row of a view, which is not changed. ``nominated``: see ``rivals``; ``times``: where the
    calls of the second pass are noted."""
    refusal = _refusal_beside(filters, states, pod, view, row, nominated) if nominated else None
    return filter_one_row(filters, states, pod, view, row, times) if refusal is None else refusal


def filter_private(
    filters: Sequence[FilterPlugin], states: States, pod: PodInfo, private: View, nominated: Sequence[PodInfo]
) -> Refusal | None:
    """The same for the one row of a private view: the nominated pods are put there, and taken off again."""
    if any(other.ports for other in nominated):
        # One of two pods that share a port frees it: taking off is not the opposite of putting.
        return filter_with_nominated(filters, states, pod, private, 0, nominated)
    refusal = None
    if nominated:
        refusal = filter_one_row(filters, with_pods(states, private, 0, nominated, 1), pod, private, 0)
        for other in nominated:
            private.remove_pod(other.uid)
    return filter_one_row(filters, states, pod, private, 0) if refusal is None else refusal


def _refusal_beside(
    filters: Sequence[FilterPlugin], states: States, pod: PodInfo, view: View, row: int, others: Sequence[PodInfo]
) -> Refusal | None:
    """The first pass for one row: its refusal with the nominated pods added."""
    private = view.one_row(row)
    return filter_one_row(filters, with_pods(states, private, 0, others, 1), pod, private, 0)


class FiltersBeside(Struct, frozen=True):
    """The filters that are asked about a pod beside nominated ones; the same for all pods with these states."""

    filters: Sequence[FilterPlugin]
    states: States
    asked: tuple[AskedFilter, ...]
    """Those that did not skip."""
    are_plain: bool
    """None of them counts pods: their states are the same, whatever is on the row."""
    need_each_row: bool
    """One of them may count any pod, or counts pods and looks at usage, too."""

    @classmethod
    def of(cls, filters: Sequence[FilterPlugin], states: States) -> FiltersBeside:
        """The filters with these states, without those that skipped."""
        asked = tuple(
            [
                AskedFilter.of(plugin, state)
                for plugin in filters
                if not isinstance(state := states.get(plugin.name, EMPTY_STATE), Skip)
            ]
        )
        counting = [one for one in asked if one.counts_pods]
        need_each_row = any(one.ignores is None or one.reads_usage for one in counting)
        return cls(filters, states, asked, not counting, need_each_row)


def refusals_beside(
    beside: FiltersBeside, pod: PodInfo, view: View, nominated: Mapping[int, Sequence[PodInfo]]
) -> dict[int, Refusal | None]:
    """The first pass for many rows: row → refusal with that row's nominated pods added.

    Each plugin is asked about all rows at once, and by itself about those whose nominated pods it counts. Rows are
    tried one by one where a plugin's state may count any pod, or counts pods of a plugin that looks at usage, too. So
    are a few rows where no plugin counts pods.
    """
    asked = beside.asked
    if beside.are_plain and len(nominated) <= _FEW_ROWS:
        return {row: _plain_refusal(asked, pod, view, row, pods) for row, pods in nominated.items()}
    if beside.need_each_row:
        filters, states = beside.filters, beside.states
        return {row: _refusal_beside(filters, states, pod, view, row, pods) for row, pods in nominated.items()}
    rows = list(nominated)
    private = view.take(rows)
    private.add_pods(dict(enumerate(nominated.values())))
    found: dict[int, Refusal | None] = dict.fromkeys(rows)
    for one in reversed(asked):
        own = _states_beside(one, private, nominated.values()) if one.counts_pods else {}
        try:
            verdicts = one.plugin.filter(one.state, pod, private, private.rows) if len(own) < len(rows) else None
            refusals = {place: one.plugin.filter_row(state, pod, private, place) for place, state in own.items()}
        except Exception as error:
            raise PluginError(one.plugin.name, "Filter", error) from error
        if verdicts is not None:
            signed = [refusal.by(one.plugin.name) for refusal in verdicts.refusals]
            refusing = np.flatnonzero(verdicts.codes)
            for place, code in zip(refusing.tolist(), verdicts.codes[refusing].tolist(), strict=True):
                if place not in own:
                    found[rows[place]] = signed[code - 1]
        for place, refusal in refusals.items():
            if refusal is not None:
                found[rows[place]] = refusal.by(one.plugin.name)
    return found


def _plain_refusal(
    asked: Iterable[AskedFilter], pod: PodInfo, view: View, row: int, others: Iterable[PodInfo]
) -> Refusal | None:
    """``_refusal_beside``, where no plugin counts pods."""
    private = view.one_row(row)
    for other in others:
        private.add_pod(other)
    for one in asked:
        try:
            refusal = one.plugin.filter_row(one.state, pod, private, 0)
        except Exception as error:
            raise PluginError(one.plugin.name, "Filter", error) from error
        if refusal is not None:
            return refusal.by(one.plugin.name)
    return None


def _states_beside(one: AskedFilter, private: View, nominated: Iterable[Sequence[PodInfo]]) -> dict[int, State]:
    """Place → the plugin's state with the place's nominated pods, of those where it counts any. The pods are in the
    private table already."""
    found = {}
    for place, pods in enumerate(nominated):
        counted = [other for other in pods if one.counts(other)]
        if counted:
            state = one.state_for_row(private, place)
            for other in counted:
                state = _with_pod(one.plugin.name, state, private, place, other, 1)
            found[place] = state
    return found


def rivals(pod: PodInfo, nominated: Sequence[PodInfo]) -> tuple[PodInfo, ...]:
    """The pods nominated to a node that ``pod`` must leave room for: of equal or higher priority, and not itself."""
    priority, uid = pod.priority, pod.uid
    return tuple([other for other in nominated if other.priority >= priority and other.uid != uid])
