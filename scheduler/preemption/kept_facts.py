"""The row facts that cached results of dry runs hold for (``framework/row_facts.py``)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scheduler.cluster.view import View
from scheduler.framework.asked_filters import AskedFilter
from scheduler.framework.row_facts import FactColumn, FactualState

_MAX_COLUMNS = 64
"""Columns of all plugins, 512 bytes a row: each topology key is one or two, and any tenant's pods may have many."""

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


class KeptFacts:
    """The row facts that the cached results of one class of pods hold for, by row."""

    __slots__ = ("_kept", "_of_all", "_present", "_size")

    def __init__(self) -> None:
        self._of_all: tuple[object, ...] = ()
        self._present: Mapping[Hashable, FactColumn] = {}
        """The row facts of the present attempt."""
        self._kept: dict[Hashable, FactColumn] = {}
        self._size = 0

    def begin(self, counting: Sequence[AskedFilter], view: View) -> tuple[tuple[AskedFilter, ...], bool]:
        """Begin an attempt with these filters that count pods. Returns those that tell no facts, and whether kept
        results may still hold."""
        of_all: list[object] = []
        present: dict[Hashable, FactColumn] = {}
        silent: list[AskedFilter] = []
        for one in counting:
            if isinstance(one.state, FactualState):
                facts = one.state.row_facts(view)
                of_all += (one.plugin.name, *facts.of_all)
                present |= {(one.plugin.name, name): column for name, column in facts.columns.items()}
            else:
                silent.append(one)
        if len(present) > _MAX_COLUMNS:
            of_all, present, silent = [], {}, list(counting)
        self._present, self._size = present, view.table.size
        before, self._of_all = self._of_all, tuple(of_all)
        holds_on = before == self._of_all
        if not holds_on or len(self._kept.keys() | present.keys()) > _MAX_COLUMNS:
            self._kept.clear()
            return tuple(silent), False
        return tuple(silent), True

    def are_as_kept(self, rows: Rows) -> Mask | None:
        """Which of these rows have the facts that their result is kept for; None: all."""
        same: Mask | None = None
        for name, present in self._present.items():
            kept = self._kept.get(name)
            is_same = present[rows] == (0 if kept is None else self._column(name, kept)[rows])
            same = is_same if same is None else same & is_same
        for name in self._kept.keys() - self._present.keys():
            is_same = self._column(name, self._kept[name])[rows] == 0
            same = is_same if same is None else same & is_same
        return same

    def keep(self, rows: Rows) -> None:
        """Record that the results of these rows are kept for the facts of the present attempt."""
        for name, present in self._present.items():
            kept = self._kept.get(name)
            self._column(name, np.zeros(0, np.int64) if kept is None else kept)[rows] = present[rows]
        for name in self._kept.keys() - self._present.keys():
            self._column(name, self._kept[name])[rows] = 0

    def _column(self, name: Hashable, kept: FactColumn) -> FactColumn:
        """The column with an entry for each row that there is by now."""
        if (more := self._size - len(kept)) > 0:
            kept = self._kept[name] = np.append(kept, np.zeros(more, np.int64))
        return kept
