"""PodTopologySpread's scores by group: nodes score alike that are in the same domain of each soft constraint or, for a
constraint that counts by node, that have the same number of matching pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from scheduler.cluster.domains import count_domains
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.pod_counts import Counts
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import State
from scheduler.framework.shortcuts import MAX_GROUPS, Fitting, GroupScores
from scheduler.objects.memo import has_many_parts
from scheduler.plugins.go_math import go_round
from scheduler.plugins.spread.constraints import Constraint, Countable, Eligibility, both, rows_with_all_keys
from scheduler.plugins.spread.recount import CountedQuery, Nodes, changes_by_row
from scheduler.plugins.spread.state import contributions, normalized

_ROOM: Final = 4
"""Numbers of pods a node that there are groups for beyond the present ones."""

_KEPT_FINALS: Final = 16
"""Numbers of fitting rows for which scores are kept, in 0.2 KB each."""

Groups = npt.NDArray[np.integer]

_UNCHANGED: Final[list[tuple[int, int]]] = []


class _Axis(Struct, frozen=True):
    """One constraint: a digit of the groups' numbers."""

    constraint: Constraint
    query: CountedQuery | None
    """None: nothing is counted."""
    counts: Counts
    """Matching pods by digit. Digit 0 is for nodes without the key; the others are its values by id or, for a
    constraint that counts by node, one more than the number of pods."""
    stride: int
    known: dict[int, npt.NDArray[np.float64]] = field(default_factory=dict)
    """The last answer of ``contributions`` by its argument: where the counts stay the same, that often does, too."""

    def contributions(self, size: int) -> npt.NDArray[np.float64]:
        """The contribution of each digit to the score."""
        found = self.known.get(size)
        if found is None:
            self.known.clear()
            found = self.known[size] = contributions(self.counts, self.constraint, size)
            found[ABSENT] = 0.0
        return found

    def at(self, query: CountedQuery | None, counts: Counts) -> _Axis:
        """The same constraint, with these counts."""
        if query is self.query:
            return self
        known = self.known if counts is self.counts else {}
        return _Axis(self.constraint, query, counts, self.stride, known)


class _Presence(Struct, frozen=True):
    """Which groups have rows that fit, and what follows from that."""

    has_members: bytes
    """A boolean by group."""
    placing: npt.NDArray[np.bool_]
    """By group: whether it has rows that fit and are scored."""
    domains: tuple[int | None, ...]
    """By axis: by how many domains the constraint is weighed; None: by the number of rows that fit and are scored."""
    finals: dict[int, Counts] = field(default_factory=dict)
    """By that number, where all axes count by node: what each digit counts is always the same then. A hard constraint
    on few domains beside these opens and closes whole domains, so that a few numbers come again and again."""


class GroupedSpread(State):
    """The groups of nodes that score alike, and the number of matching pods in each, for one pod."""

    __slots__ = ("_axes", "_counts_nodes_alone", "_nodes", "presence", "scored")

    def __init__(self, axes: tuple[_Axis, ...], requires_all_keys: bool, view: View) -> None:
        self._axes = axes
        self._nodes = Nodes.of(view.table, honors_taints=any(axis.constraint.honors_taints for axis in axes))
        self._counts_nodes_alone = all(axis.constraint.is_per_node for axis in axes)
        self.presence: _Presence | None = None
        """With the rows that fit when ``finals`` was asked."""
        self.scored: npt.NDArray[np.bool_] | None = None
        """By group: whether its nodes are scored; None: all are."""
        if requires_all_keys:
            self.scored = (np.indices([len(axis.counts) for axis in axes]) != ABSENT).all(axis=0).ravel()

    @property
    def width(self) -> int:
        """The number of groups."""
        first = self._axes[0]
        return first.stride * len(first.counts)

    def finals(self, members: Counts, fitting_rows: int, before: GroupedSpread | None = None) -> Counts:
        """The normalised scores by group, 0 for groups without members and for nodes that are not scored. ``before``:
        of an earlier answer with the same groups."""
        presence = self.presence = self._presence_of(members, None if before is None else before.presence)
        rows = fitting_rows
        if self.scored is not None:
            lacking = members.item(ABSENT) if len(self._axes) == 1 else np.add.reduce(members, where=~self.scored)
            rows -= int(lacking)
        if not self._counts_nodes_alone:
            return self._finals(presence, rows)
        known = presence.finals.get(rows)
        if known is None:
            if len(presence.finals) >= _KEPT_FINALS:
                presence.finals.clear()
            known = presence.finals[rows] = self._finals(presence, rows)
        return known

    def _finals(self, presence: _Presence, rows: int) -> Counts:
        """``rows``: how many fit and are scored."""
        total: npt.NDArray[np.float64] | None = None
        # One constraint after the other: the result depends on the order of floating-point additions.
        for axis, domains in zip(self._axes, presence.domains, strict=True):
            by_digit = axis.contributions(rows if domains is None else domains)
            total = by_digit if total is None else np.add.outer(total, by_digit).ravel()
        assert total is not None
        raw = go_round(total)
        finals = normalized(raw, raw[presence.placing])
        finals *= presence.placing
        return finals

    def _presence_of(self, members: Counts, known: _Presence | None) -> _Presence:
        """``known``: of an earlier answer with the same groups."""
        has_members = members > 0
        if known is not None and known.has_members == has_members.tobytes():
            return known
        placing = has_members if self.scored is None else has_members & self.scored
        shape = [len(axis.counts) for axis in self._axes]
        domains: list[int | None] = []
        for place, axis in enumerate(self._axes):
            if axis.constraint.is_per_node:
                domains.append(None)
            else:
                others = tuple([other for other in range(len(shape)) if other != place])
                domains.append(int(np.count_nonzero(placing.reshape(shape).any(axis=others))))
        return _Presence(has_members.tobytes(), placing, tuple(domains))

    def recounted(self, view: View, groups: Groups) -> tuple[GroupedSpread, Groups, list[int]] | None:
        """The state and each row's group as of now, and the rows whose group may have changed. None unless pods are
        all that changed, and there are groups for all numbers of them."""
        table = view.table
        if not self._nodes.hold_in(table):
            return None
        regrouped: list[int] = []
        axes: list[_Axis] = []
        asked: CountedQuery | None = None
        found: tuple[CountedQuery, list[tuple[int, int]]] | None = None
        for axis in self._axes:
            now, changes = axis.query, _UNCHANGED
            if now is not None:
                if asked is None or found is None or not now.counts_as(asked):
                    asked, found = now, changes_by_row(now, view)
                if found is None:
                    return None
                now, changes = now.at(found[0].version), found[1]
            counts = axis.counts
            if changes and axis.constraint.is_per_node:
                if not regrouped:
                    groups = groups.copy()
                for row, sign in changes:
                    digit = groups.item(row) // axis.stride % len(counts)
                    if digit == ABSENT:
                        continue
                    if not 0 < digit + sign < len(counts):
                        return None
                    groups[row] += sign * axis.stride
                    regrouped.append(row)
            elif changes:
                ids = table.label(axis.constraint.topology_key)
                mask = axis.query.mask if axis.query is not None else None
                counts = counts.copy()
                for row, sign in changes:
                    if mask is None or mask.item(row):
                        counts[ids.item(row)] += sign
            axes.append(axis.at(now, counts))
        return self._with(tuple(axes)), groups, regrouped

    def _with(self, axes: tuple[_Axis, ...]) -> GroupedSpread:
        other = GroupedSpread.__new__(GroupedSpread)
        other._axes = axes
        other._nodes = self._nodes
        other._counts_nodes_alone = self._counts_nodes_alone
        other.scored, other.presence = self.scored, None
        return other


def scores_again(before: GroupScores, view: View, fitting: Fitting) -> GroupScores | None:
    """The scores as of now, where pods are all that changed; None where more has."""
    state = before.state
    assert isinstance(state, GroupedSpread)
    found = state.recounted(view, before.groups)
    if found is None:
        return None
    now, groups, regrouped = found
    members = before.members_now(fitting)
    if members is None:
        members = fitting.members(groups, now.width)
    elif regrouped:
        members = members.copy()
        for row in set(regrouped):
            if not fitting.codes.item(row):
                members[before.groups.item(row)] -= 1
                members[groups.item(row)] += 1
    return GroupScores(now, groups, now.finals(members, fitting.count, state), members, fitting.version, regrouped)


def grouped_scores(
    constraints: Sequence[Constraint],
    eligibility: Eligibility,
    requires_all_keys: bool,
    pod: PodInfo,
    view: View,
    fitting: Fitting,
) -> GroupScores | None:
    """The scores with all pods counted; None where there would be too many groups, or in a rare case."""
    table = view.table
    if not constraints or has_many_parts(constraints):
        return None
    counted = [one for one in constraints if not one.is_nowhere(table)]
    if not counted or (requires_all_keys and len(counted) < len(constraints)):
        return None
    values = {one.topology_key: table.label_values(one.topology_key) for one in counted if not one.is_per_node}
    if not requires_all_keys and any(found.find("") != ABSENT for found in values.values()):
        # A node without the label and one with an empty value are in one domain.
        return None
    if any(len(found) > MAX_GROUPS for found in values.values()):
        return None
    with_keys = rows_with_all_keys(constraints, table) if requires_all_keys else None
    countable = Countable(eligibility, table)
    groups = np.zeros(table.size, np.int32)
    axes: list[_Axis] = []
    stride = 1
    for one in reversed(counted):
        ids, live = table.label(one.topology_key), one.live_tally(pod.namespace, view)
        mask = None if one.is_per_node else both(with_keys, countable.rows(one))
        if one.is_per_node:
            by_row = np.zeros(table.size, np.int64) if live is None else live.array(table.size)
            width = int(by_row.max(initial=0)) + 2 + _ROOM
            counts = np.arange(-1, width - 1, dtype=np.int64)
            digits = np.where(ids == ABSENT, 0, by_row + 1)
        else:
            width = len(values[one.topology_key])
            counts = np.zeros(width, np.int64) if live is None else count_domains(table, one.topology_key, live, mask)
            digits = ids
        if stride * width > MAX_GROUPS:
            return None
        groups += (digits * stride).astype(np.int32)
        axes.append(_Axis(one, one.query(pod.namespace, mask, view), counts, stride))
        stride *= width
    state = GroupedSpread(tuple(reversed(axes)), requires_all_keys, view)
    narrow = groups.astype(np.int16)
    members = fitting.members(narrow, state.width)
    return GroupScores(state, narrow, state.finals(members, fitting.count), members, fitting.version)
