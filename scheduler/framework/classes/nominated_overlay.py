"""The rows on which a class of pods does not fit once the pods nominated there are counted.

The class's own answers do not include nominations; this overlay does. It caches, for the pods of one class and one
priority, the refusal of each node that others are nominated to, and evaluates it again only if the node or its
nominations have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.filters import ClassFilters
from scheduler.framework.likeness import NO_CLAIMS, Likeness, PartsOfRows, Stamps, likeness_of
from scheduler.framework.node_filter import refusals_with_nominated, rivals
from scheduler.framework.plugin import EMPTY_STATE, FilterPlugin
from scheduler.framework.traits import traits_of
from scheduler.messages.status import SKIP, Refusal


class Nominations(Protocol):
    """The part of the nominator that the overlay uses."""

    @property
    def version(self) -> int: ...

    def nodes_changed_since(self, version: int) -> set[str] | None: ...

    @property
    def nodes(self) -> Collection[str]: ...

    def pods_for_node(self, node_name: str) -> Sequence[PodInfo]: ...

    def nominated_node(self, uid: str) -> str: ...


_REFUSALS_KEPT = 64


class NominatedOverlay:
    """The rows with nominated pods that refuse a pod beside those."""

    __slots__ = (
        "_asked",
        "_depended_on",
        "_filters",
        "_nominations_version",
        "_of_one",
        "_only",
        "_parts",
        "_refusals",
        "_refused",
        "_rows_version",
        "_stamps",
        "_undeclared",
    )

    def __init__(self, filters: Sequence[FilterPlugin]) -> None:
        self._filters = filters
        self._undeclared = [plugin.name for plugin in filters if not traits_of(plugin).is_declared]
        self._asked: set[int] = set()
        self._refused: dict[int, Refusal] = {}
        """Row → refusal, of the evaluated rows that refuse."""
        self._refusals: dict[Refusal, Refusal] = {}
        """Refusal → the one object kept for all that are equal to it."""
        self._rows_version = -1
        self._nominations_version = -1
        self._depended_on: Sequence[tuple[object, object]] = ()
        self._only: frozenset[str] | None = None
        self._parts = PartsOfRows()
        self._of_one: set[int] = set()
        """Rows whose answers are those of the last pod alone."""
        self._stamps: Stamps | None = None
        """By row, the stamps of the likeness at the last call."""

    def refusals(self, run: ClassRun, filters: ClassFilters, nominations: Nominations) -> dict[int, Refusal]:
        """Row → refusal, of the rows that refuse the pod beside their nominated pods, as a new dictionary. Equal
        refusals are one object. Raises PluginError."""
        view, journal = run.view, run.journal
        table = view.table
        likeness = self._likeness(filters, view)
        depends_on = self._dependencies(filters, likeness)
        changed = journal.since(self._rows_version) if self._rows_version >= 0 and filters.only == self._only else None
        renominated = nominations.nodes_changed_since(self._nominations_version) if changed is not None else None
        stamps = likeness.stamps if likeness is not None else None
        if changed is None or renominated is None:
            self._asked.clear()
            self._refused.clear()
            self._refusals.clear()
            self._parts.clear()
            stale = {row for name in nominations.nodes if (row := table.existing_row(name)) is not None}
        else:
            stale = {row for name in renominated if (row := table.existing_row(name)) is not None}
            # A node may come (back) after pods were nominated to it.
            nominated = nominations.nodes
            stale.update(row for row in changed if row in self._asked or table.names[row] in nominated)
            stale |= self._stale_from(self._first_change(depends_on))
            stale |= self._of_one
            stale.update(row for row in _with_other_stamps(self._stamps, stamps) if row in self._asked)
            stale = {row for row in stale if row in self._asked or table.exists[row]}
        self._rows_version = -1
        self._ask(run, filters, stale, nominations, likeness)
        refused = dict(self._refused)
        own = set() if likeness is None else self._parts.rows_of_its_own(likeness) & self._asked
        self._of_one = own & stale
        own -= stale
        # Cached answers are for a pod without a nomination; this pod must not be counted as its own rival.
        nominated_row = table.existing_row(nominations.nominated_node(run.pod.uid))
        if nominated_row is not None and nominated_row in self._asked:
            own.add(nominated_row)
        for row in sorted(own):
            self._ask_again(run, filters, row, nominations, refused)
        self._rows_version = journal.version
        self._nominations_version = nominations.version
        self._depended_on, self._only = depends_on, filters.only
        self._stamps = None if stamps is None else stamps.copy()
        return refused

    def _likeness(self, filters: ClassFilters, view: View) -> Likeness | None:
        """Of the plugins that declare nothing; None where one's answers are this pod's alone."""
        states = [state for name in self._undeclared if (state := filters.states.get(name, EMPTY_STATE)) is not SKIP]
        return likeness_of(states, view) if states else NO_CLAIMS

    def _dependencies(self, filters: ClassFilters, likeness: Likeness | None) -> list[tuple[object, object]]:
        """What each filter's answers depend on, besides rows: what is compared by value, and what is one object."""
        found: list[tuple[object, object]] = []
        for plugin in self._filters:
            name = plugin.name
            state = filters.states.get(name, EMPTY_STATE)
            if state is SKIP:
                found.append((None, SKIP))
            elif name not in self._undeclared:
                found.append((filters.version_of(name), state))
            elif likeness is not None:
                found.append((likeness.key, None))
            else:
                found.append((None, object()))
        return found

    def _first_change(self, depends_on: Sequence[tuple[object, object]]) -> int:
        """The place of the first filter whose answers may be others than at the last call."""
        for place, (now, before) in enumerate(zip(depends_on, self._depended_on, strict=False)):
            if now[1] is not before[1] or now[0] != before[0]:
                return place
        return len(self._depended_on)

    def _stale_from(self, place: int) -> set[int]:
        """The rows whose answers do not hold if those of the filter at this place and after it do not: a filter before
        it that refuses has the last word."""
        if place == len(self._filters):
            return set()
        firm = {plugin.name for plugin in self._filters[:place]}
        return {row for row in self._asked if (said := self._refused.get(row)) is None or said.plugin not in firm}

    def _ask_again(
        self, run: ClassRun, filters: ClassFilters, row: int, nominations: Nominations, refused: dict[int, Refusal]
    ) -> None:
        """Ask for this pod alone."""
        refused.pop(row, None)
        if beside := rivals(run.pod, nominations.pods_for_node(run.view.table.names[row])):
            found = refusals_with_nominated(self._filters, filters.states, run.pod, run.view, {row: beside})[row]
            if found is not None:
                refused[row] = self._one_for_all(found)

    def _ask(
        self, run: ClassRun, filters: ClassFilters, rows: set[int], nominations: Nominations, likeness: Likeness | None
    ) -> None:
        pod, view = run.pod, run.view
        names, exists = view.table.names, view.table.exists
        asked: dict[int, Sequence[PodInfo]] = {}
        for row in sorted(rows):
            self._asked.discard(row)
            self._refused.pop(row, None)
            if not exists[row]:
                continue
            beside = [other for other in nominations.pods_for_node(names[row]) if other.priority >= pod.priority]
            if beside and filters.only is not None and names[row] not in filters.only:
                continue
            if beside:
                asked[row] = beside
        if not asked:
            return
        if len(self._refusals) > 2 * len(self._refused) + _REFUSALS_KEPT:
            self._refusals = {refusal: refusal for refusal in self._refused.values()}
        self._asked.update(asked)
        if likeness is not None:
            for row, pods in asked.items():
                self._parts.put(row, pods, likeness)
        for row, refusal in refusals_with_nominated(self._filters, filters.states, pod, view, asked).items():
            if refusal is not None:
                self._refused[row] = self._one_for_all(refusal)

    def _one_for_all(self, refusal: Refusal) -> Refusal:
        return self._refusals.setdefault(refusal, refusal)


def _with_other_stamps(before: Stamps | None, after: Stamps | None) -> list[int]:
    """Rows whose stamp has changed."""
    if before is None or after is None:
        return []
    if len(before) < len(after):
        before = np.append(before, np.zeros(len(after) - len(before), np.int64))
    return np.flatnonzero(before[: len(after)] != after).tolist()
