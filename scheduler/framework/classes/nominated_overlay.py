"""The rows on which a class of pods does not fit once the pods nominated there are counted.

The class's own answers do not include nominations; this overlay does. It caches, for the pods of one class and one
priority, the refusal of each node that others are nominated to, and evaluates it again only if the node or its
nominations have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import compress
from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.filters import ClassFilters
from scheduler.framework.classes.first_refusals import NO_ROWS
from scheduler.framework.likeness import NO_CLAIMS, Likeness, PartsOfRows, Stamps, likeness_of
from scheduler.framework.node_filter import FiltersBeside, refusals_beside, rivals
from scheduler.framework.plugin import EMPTY_STATE, FilterPlugin
from scheduler.framework.traits import traits_of
from scheduler.messages.status import SKIP, Code, Refusal

Codes = npt.NDArray[np.int32]


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
"""How many different refusals are kept, beside twice as many as there are rows, before those that no row has any more
are dropped."""


class RowRefusals(Struct, frozen=True):
    """Refusals by row, as numbers: a thousand rows that preemptors wait for mostly share one."""

    codes: Codes
    """By row: 0, or k for ``refusals[k - 1]``."""
    refusals: tuple[Refusal, ...] = ()
    """Signed; each of some row, and no two equal."""

    def __bool__(self) -> bool:
        """Whether any row refuses."""
        return bool(self.refusals)

    @property
    def error_rows(self) -> npt.NDArray[np.int64]:
        """The rows that refuse with an error, ascending."""
        is_error = [False, *(refusal.code is Code.ERROR for refusal in self.refusals)]
        return np.flatnonzero(np.array(is_error)[self.codes]) if any(is_error) else NO_ROWS

    def on(self, row: int) -> Refusal | None:
        """The refusal of this row."""
        code = self.codes.item(row) if self.refusals else 0
        return self.refusals[code - 1] if code else None

    def by_row(self) -> dict[int, Refusal]:
        rows = np.flatnonzero(self.codes).tolist()
        return {row: self.refusals[self.codes[row] - 1] for row in rows}


NO_REFUSALS = RowRefusals(np.zeros(0, np.int32))


class NominatedOverlay:
    """The rows with nominated pods that refuse a pod beside those."""

    __slots__ = (
        "_asked",
        "_beside",
        "_codes",
        "_depended_on",
        "_depended_on_in",
        "_filters",
        "_nominations_version",
        "_numbers",
        "_of_one",
        "_only",
        "_parts",
        "_rows_version",
        "_stamps",
        "_undeclared",
    )

    def __init__(self, filters: Sequence[FilterPlugin]) -> None:
        self._filters = filters
        self._undeclared = [plugin.name for plugin in filters if not traits_of(plugin).is_declared]
        self._beside = FiltersBeside.of((), {})
        """Of the states at the last call."""
        self._asked: set[int] = set()
        self._codes: Codes = np.zeros(0, np.int32)
        """By row: the number of the refusal, of the evaluated rows that refuse; else 0."""
        self._numbers: dict[Refusal, int] = {}
        """Refusal → its number, from 1 on in this order."""
        self._rows_version = -1
        self._nominations_version = -1
        self._depended_on: list[tuple[object, object]] = []
        self._depended_on_in: tuple[object, int] = (None, 0)
        """The states of the class's filters, and the sum of their versions, with which that was worked out."""
        self._only: frozenset[str] | None = None
        self._parts = PartsOfRows()
        self._of_one: set[int] = set()
        """Rows whose answers are those of the last pod alone."""
        self._stamps: Stamps | None = None
        """By row, the stamps of the likeness at the last call."""

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes

    def refusals(self, run: ClassRun, filters: ClassFilters, nominations: Nominations) -> RowRefusals:
        """The refusals of the rows that refuse the pod beside their nominated pods. Raises PluginError."""
        view, journal = run.view, run.journal
        table = view.table
        likeness = self._likeness(filters, view)
        depends_on = self._dependencies(filters, likeness)
        changed = journal.since(self._rows_version) if self._rows_version >= 0 and filters.only == self._only else None
        renominated = nominations.nodes_changed_since(self._nominations_version) if changed is not None else None
        stamps = likeness.stamps if likeness is not None else None
        if changed is None or renominated is None:
            self._asked.clear()
            self._codes = np.zeros(table.size, np.int32)
            self._numbers.clear()
            self._parts.clear()
            stale = {row for name in nominations.nodes if (row := table.existing_row(name)) is not None}
        else:
            if (more := table.size - len(self._codes)) > 0:
                self._codes = np.append(self._codes, np.zeros(more, np.int32))
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
        codes = self._codes.copy()
        own = set() if likeness is None else self._parts.rows_of_its_own(likeness) & self._asked
        self._of_one = own & stale
        own -= stale
        # Cached answers are for a pod without a nomination; this pod must not be counted as its own rival.
        nominated_row = table.existing_row(nominations.nominated_node(run.pod.uid))
        if nominated_row is not None and nominated_row in self._asked:
            own.add(nominated_row)
        for row in sorted(own):
            codes[row] = self._number_of(self._asked_again(run, filters, row, nominations))
        self._rows_version = journal.version
        self._nominations_version = nominations.version
        self._depended_on, self._only = depends_on, filters.only
        self._depended_on_in = filters.states, filters.versions_sum
        self._stamps = None if stamps is None else stamps.copy()
        return _compact(codes, self._numbers)

    def _likeness(self, filters: ClassFilters, view: View) -> Likeness | None:
        """Of the plugins that declare nothing; None where one's answers are this pod's alone."""
        states = [state for name in self._undeclared if (state := filters.states.get(name, EMPTY_STATE)) is not SKIP]
        return likeness_of(states, view) if states else NO_CLAIMS

    def _dependencies(self, filters: ClassFilters, likeness: Likeness | None) -> list[tuple[object, object]]:
        """What each filter's answers depend on, besides rows: what is compared by value, and what is one object."""
        states, versions_sum = self._depended_on_in
        if likeness is NO_CLAIMS and states is filters.states and versions_sum == filters.versions_sum:
            return self._depended_on
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
        is_firm = [False, *(refusal.plugin in firm for refusal in self._numbers)]
        return {row for row in self._asked if not is_firm[self._codes[row]]}

    def _asked_again(self, run: ClassRun, filters: ClassFilters, row: int, nominations: Nominations) -> Refusal | None:
        """The answer for this pod alone."""
        beside = rivals(run.pod, nominations.pods_for_node(run.view.table.names[row]))
        if not beside:
            return None
        return refusals_beside(self._filters_beside(filters), run.pod, run.view, {row: beside})[row]

    def _filters_beside(self, filters: ClassFilters) -> FiltersBeside:
        if self._beside.states is not filters.states:
            self._beside = FiltersBeside.of(self._filters, filters.states)
        return self._beside

    def _ask(
        self, run: ClassRun, filters: ClassFilters, rows: set[int], nominations: Nominations, likeness: Likeness | None
    ) -> None:
        pod, view = run.pod, run.view
        names, exists = view.table.names, view.table.exists
        asked: dict[int, Sequence[PodInfo]] = {}
        for row in sorted(rows):
            self._asked.discard(row)
            self._codes[row] = 0
            if not exists[row]:
                continue
            beside = [other for other in nominations.pods_for_node(names[row]) if other.priority >= pod.priority]
            if beside and filters.only is not None and names[row] not in filters.only:
                continue
            if beside:
                asked[row] = beside
        if not asked:
            return
        if len(self._numbers) > 2 * len(self._asked) + _REFUSALS_KEPT:
            left = _compact(self._codes, self._numbers)
            self._codes = left.codes
            self._numbers = {refusal: number for number, refusal in enumerate(left.refusals, 1)}
        self._asked.update(asked)
        if likeness is not None:
            for row, pods in asked.items():
                self._parts.put(row, pods, likeness)
        for row, refusal in refusals_beside(self._filters_beside(filters), pod, view, asked).items():
            self._codes[row] = self._number_of(refusal)

    def _number_of(self, refusal: Refusal | None) -> int:
        return 0 if refusal is None else self._numbers.setdefault(refusal, len(self._numbers) + 1)


def _compact(codes: Codes, numbers: Collection[Refusal]) -> RowRefusals:
    """Without the refusals that no row has. ``numbers``: in order."""
    is_used = np.bincount(codes, minlength=len(numbers) + 1) > 0
    is_used[0] = False
    if int(np.count_nonzero(is_used)) == len(numbers):
        return RowRefusals(codes, tuple(numbers))
    renumbered = np.where(is_used, np.cumsum(is_used), 0).astype(np.int32)
    return RowRefusals(renumbered[codes], tuple(compress(numbers, is_used[1:].tolist())))


def _with_other_stamps(before: Stamps | None, after: Stamps | None) -> list[int]:
    """Rows whose stamp has changed."""
    if before is None or after is None:
        return []
    if len(before) < len(after):
        before = np.append(before, np.zeros(len(after) - len(before), np.int64))
    return np.flatnonzero(before[: len(after)] != after).tolist()
