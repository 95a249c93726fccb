"""What every plugin says of every node, not only the first that refuses it, with the values behind the refusals.

For people only. The plugins are called directly, past the class cache, on a view that stays as it is; one that raises
is named with its error and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.searching import takes_long
from scheduler.errors import type_and_message
from scheduler.framework.node_filter import with_pods
from scheduler.framework.plugin import (
    EMPTY_STATE,
    FilterPlugin,
    Finding,
    NodeSubset,
    PreFilterPlugin,
    State,
)
from scheduler.framework.profile import Profile
from scheduler.framework.stepwise import PRE_FILTER, LookingPlugin, read_of
from scheduler.messages.status import Refusal, Skip, failure, unresolvable
from scheduler.objects.steps import Steps, run_to_end

RowArray = npt.NDArray[np.int64]

MAX_NAMES: Final = 10
"""Nodes named of one refusal."""
MAX_REASONS: Final = 50
"""Reasons listed of one refusal."""
MAX_NAMES_IN_REASONS: Final = 5
"""Nodes named in the reason of a plugin that restricts the search."""


class PluginRefusal(Struct, frozen=True):
    """One refusal of one plugin, signed, with its rows in the order of the nodes."""

    refusal: Refusal
    rows: RowArray
    findings: tuple[Finding, ...]


class WhyNot(Struct):
    """The answers of all plugins for one pod."""

    refusals: list[PluginRefusal] = field(default_factory=list)
    of_pod: list[Refusal] = field(default_factory=list)
    """Refusals of the pod as a whole, signed."""
    states: dict[str, State | Skip] = field(default_factory=dict)

    def plugins_by_row(self, rows: RowArray) -> dict[int, list[str]]:
        """The plugins that refuse each of ``rows``, in their order; rows that none refuses are missing."""
        plugins: dict[int, list[str]] = {}
        for one in self.refusals:
            for row in one.rows[np.isin(one.rows, rows)].tolist():
                plugins.setdefault(row, []).append(one.refusal.plugin)
        return plugins

    def refusing_rows(self) -> RowArray:
        """Rows that at least one plugin refuses, with a repetition for each plugin."""
        return np.concatenate([one.rows for one in self.refusals]) if self.refusals else np.zeros(0, np.int64)


def why_not(profile: Profile, pod: PodInfo, view: View, rows: RowArray) -> WhyNot:
    """The answers for these rows, in the order in which the profile runs its plugins."""
    return run_to_end(why_not_in_steps(profile, pod, view, rows))


def why_not_in_steps(profile: Profile, pod: PodInfo, view: View, rows: RowArray) -> Steps[WhyNot]:
    """``why_not``, with pauses: nothing may change in the view until it ends."""
    answer = WhyNot()
    if takes_long(pod, view.volumes):
        yield from read_of(profile.looking_plugins, pod)
    for plugin in profile.pre_filter_plugins:
        yield
        try:
            looking = plugin.look_in_steps(PRE_FILTER, pod, view) if isinstance(plugin, LookingPlugin) else None
            state: State | Skip | Refusal
            state = plugin.pre_filter(pod, view) if looking is None else (yield from looking)
        except Exception as error:  # noqa: BLE001 - the other plugins' answers are wanted all the same
            state = failure(f"raised {type_and_message(error)}")
        if isinstance(state, Refusal):
            answer.of_pod.append(state.by(plugin.name))
            answer.states[plugin.name] = _REFUSED
        elif isinstance(state, NodeSubset):
            answer.refusals += _outside(plugin, state.names, view, rows)
            answer.states[plugin.name] = state.inner
        else:
            answer.states[plugin.name] = state
    for each in profile.filter_plugins:
        yield
        answer.refusals += _refusals_of(each, answer.states.get(each.name, EMPTY_STATE), pod, view, rows)
    return answer


def why_not_beside(
    profile: Profile, pod: PodInfo, view: View, row: int, nominated: Sequence[PodInfo]
) -> list[PluginRefusal]:
    """The refusals of one row with the pods counted that are nominated there; none without such pods. The rows of the
    answer are those of a private view: 0."""
    if not nominated:
        return []
    states = {name: state for name, state in why_not(profile, pod, view, _NONE).states.items() if state is not _REFUSED}
    private = view.one_row(row)
    changed = with_pods(states, private, 0, nominated, 1)
    found: list[PluginRefusal] = []
    for each in profile.filter_plugins:
        found += _refusals_of(each, changed.get(each.name, EMPTY_STATE), pod, private, np.zeros(1, np.int64))
    return found


def refusal_pages(answer: WhyNot, names: Sequence[str | None]) -> list[dict[str, Any]]:
    """The refusals for JSON, the most frequent first. ``only``: nodes that no other plugin refuses."""
    rows, counts = np.unique(answer.refusing_rows(), return_counts=True)
    alone = rows[counts == 1]
    pages: list[dict[str, Any]] = [
        {"plugin": one.plugin, "status": one.code.value, "reasons": reasons_page(one), "wholePod": True}
        for one in answer.of_pod
    ]
    for one in sorted(answer.refusals, key=lambda one: -len(one.rows)):
        pages.append(
            {
                "plugin": one.refusal.plugin,
                "status": one.refusal.code.value,
                "reasons": reasons_page(one.refusal),
                "count": len(one.rows),
                "only": int(np.isin(one.rows, alone).sum()),
                "nodes": [name for row in one.rows[:MAX_NAMES].tolist() if (name := names[row])],
                "details": [finding_page(finding) for finding in one.findings],
            }
        )
    return pages


def reasons_page(refusal: Refusal) -> list[str]:
    """The reasons of a refusal, of very many the first: a pod may ask for 50,000 resources that no node has."""
    reasons = list(refusal.reasons[:MAX_REASONS])
    more = len(refusal.reasons) - MAX_REASONS
    return [*reasons, f"and {more} more reasons"] if more > 0 else reasons


def finding_page(finding: Finding) -> dict[str, Any]:
    return {"count": finding.count, "nodes": list(finding.nodes), "lines": list(finding.lines)}


def _outside(plugin: PreFilterPlugin, names: frozenset[str], view: View, rows: RowArray) -> Iterator[PluginRefusal]:
    """The rows to which a plugin's PreFilter does not restrict the search."""
    wanted = {row for name in names if (row := view.table.existing_row(name)) is not None}
    outside = rows[[row not in wanted for row in rows.tolist()]] if len(rows) else rows
    if len(outside):
        listed = sorted(names)
        shown = ", ".join(listed[:MAX_NAMES_IN_REASONS]) + (", …" if len(listed) > MAX_NAMES_IN_REASONS else "")
        refusal = unresolvable(f"node(s) other than {shown}" if listed else "no node is allowed").by(plugin.name)
        yield PluginRefusal(refusal, outside, ())


def _refusals_of(
    plugin: FilterPlugin, state: State | Skip, pod: PodInfo, view: View, rows: RowArray
) -> Iterator[PluginRefusal]:
    if isinstance(state, Skip) or state is _REFUSED or not len(rows):
        return
    try:
        verdicts = plugin.filter(state, pod, view, rows)
    except Exception as error:  # noqa: BLE001 - the other plugins' answers are wanted all the same
        yield PluginRefusal(failure(f"raised {type_and_message(error)}").by(plugin.name), rows, ())
        return
    if verdicts is None:
        return
    for code, refusal in enumerate(verdicts.refusals, start=1):
        refused = rows[verdicts.codes == code]
        if not len(refused):
            continue
        try:
            findings = plugin.why_not(state, pod, view, refused)
        except Exception as error:  # noqa: BLE001 - the refusal stands without its details
            findings = (Finding(len(refused), (), (f"no details: {type_and_message(error)}",)),)
        yield PluginRefusal(refusal.by(plugin.name), refused, findings)


class _Refused(State):
    """In place of the state of a plugin that refused the pod as a whole: its filter has none to go by."""

    __slots__ = ()


_REFUSED = _Refused()
_NONE: RowArray = np.zeros(0, np.int64)
