"""The rows on which a class of pods does not fit once the pods nominated there are counted.

The class's own answers do not include nominations; this overlay does. It caches, for the pods of one class and one
priority, the refusal of each node that others are nominated to, and evaluates it again only if the node or its
nominations have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.classes.filters import ClassFilters
from scheduler.framework.classes.run import ClassRun
from scheduler.framework.node_filter import refusals_with_nominated, rivals
from scheduler.framework.plugin import FilterPlugin
from scheduler.framework.traits import traits_of
from scheduler.messages.status import SKIP, Refusal


class Nominations(Protocol):
    """The part of the nominator that the overlay uses."""

    @property
    def position(self) -> int: ...

    def nodes_changed_since(self, position: int) -> set[str] | None: ...

    @property
    def nodes(self) -> Collection[str]: ...

    def pods_for_node(self, node_name: str) -> Sequence[PodInfo]: ...

    def nominated_node(self, uid: str) -> str: ...


_REFUSALS_KEPT = 64


class NominatedOverlay:
    """The rows with nominated pods that refuse a pod beside those."""

    __slots__ = (
        "_asked",
        "_filters",
        "_nominated_position",
        "_position",
        "_refusals",
        "_refused",
        "_stood_on",
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
        self._position = -1
        self._nominated_position = -1
        self._stood_on: tuple[object, ...] = ()

    def refusals(self, run: ClassRun, filters: ClassFilters, nominations: Nominations) -> dict[int, Refusal]:
        """Row → refusal, of the rows that refuse the pod beside their nominated pods, as a new dictionary. Equal
        refusals are one object. Raises PluginError."""
        pod, view, journal = run.pod, run.view, run.journal
        table = view.table
        stands_on = (filters.only, filters.stamps_version, *filters.states.values())
        is_same = len(stands_on) == len(self._stood_on) and all(
            one is other or one == other for one, other in zip(stands_on[:2], self._stood_on[:2], strict=True)
        )
        is_same = is_same and all(a is b for a, b in zip(stands_on[2:], self._stood_on[2:], strict=True))
        is_keepable = is_same and all(filters.states.get(name) is SKIP for name in self._undeclared)
        changed = journal.since(self._position) if self._position >= 0 and is_keepable else None
        moved = nominations.nodes_changed_since(self._nominated_position) if changed is not None else None
        if changed is None or moved is None:
            self._asked.clear()
            self._refused.clear()
            self._refusals.clear()
            stale = {row for name in nominations.nodes if (row := table.existing_row(name)) is not None}
        else:
            stale = {row for name in moved if (row := table.existing_row(name)) is not None}
            # A node may come (back) after pods were nominated to it.
            nominated = nominations.nodes
            stale.update(row for row in changed if row in self._asked or table.names[row] in nominated)
            stale = {row for row in stale if row in self._asked or table.exists[row]}
        self._position = -1
        self._ask(run, filters, stale, nominations)
        refused = dict(self._refused)
        own = table.existing_row(nominations.nominated_node(pod.uid))
        if own is not None and own in self._asked:
            # Cached answers are for a pod without a nomination; this pod must not be counted as its own rival.
            refused.pop(own, None)
            if beside := rivals(pod, nominations.pods_for_node(table.names[own])):
                refusal = refusals_with_nominated(self._filters, filters.states, pod, view, {own: beside})[own]
                if refusal is not None:
                    refused[own] = self._one_for_all(refusal)
        self._position = journal.position
        self._nominated_position = nominations.position
        self._stood_on = stands_on
        return refused

    def _ask(self, run: ClassRun, filters: ClassFilters, rows: set[int], nominations: Nominations) -> None:
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
        for row, refusal in refusals_with_nominated(self._filters, filters.states, pod, view, asked).items():
            if refusal is not None:
                self._refused[row] = self._one_for_all(refusal)

    def _one_for_all(self, refusal: Refusal) -> Refusal:
        return self._refusals.setdefault(refusal, refusal)
