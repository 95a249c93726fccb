"""A table for many what-ifs at once: pods are taken from and given back to all of its rows simultaneously."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from scheduler.cluster.node_columns import INT64_COLUMNS, Block, Int64Column, Rows
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.objects.resources import ResourceVector

Matrix = npt.NDArray[np.int64]

_KEPT = INT64_COLUMNS.index("non_zero_cpu")
"""How many of the columns there are."""


class Inexact(Exception):
    """A plugin looked at something that this table cannot answer truthfully."""


class WhatIfTable(NodeTable):
    """Rows 0, 1, ... are those of ``rows`` in another table. Of usage it knows the requested resources and the number
    of pods alone; asking for more (the pods themselves, say) raises ``Inexact``.
    """

    def __init__(
        self,
        source: NodeTable,
        rows: npt.NDArray[np.int64],
        charges: Mapping[str, Matrix],
        scalars: Mapping[str, Matrix],
    ) -> None:
        # Not NodeTable's own: what is not set here must be missed when it is asked for.
        self.vocabulary = source.vocabulary
        self.size = self._capacity = len(rows)
        listed = rows.tolist()
        self.names = [source.names[row] for row in listed]
        self.nodes = [source.nodes[row] for row in listed]
        self._put_matrix(source._matrix[:_KEPT].take(rows, axis=1))
        self._exists = source.exists[rows]
        self._unschedulable = source.unschedulable[rows]
        self._taint_set = source.taint_set[rows]
        self._feature_set = source.feature_set[rows]
        self._row_version = source.row_version[rows]
        self._labels = source._labels.taken(listed)
        self._allocatable = source._allocatable.taken(listed)
        self._requested = source._requested.taken(listed)
        self._changing: dict[str, Int64Column] = {}
        """Resource → what is requested of it, of those that are not the same in every what-if."""
        self._always = {}
        self._changed = [(self._arrays[name], matrix) for name, matrix in charges.items()]
        self._changed += [(self._changing_column(name), matrix) for name, matrix in scalars.items()]
        self._beside: list[tuple[Int64Column, Int64Column]] = []

    def row(self, name: str) -> int | None:
        return self.names.index(name) if name in self.names else None

    def existing_row(self, name: str) -> int | None:
        row = self.row(name)
        return row if row is not None and self._exists[row] else None

    def requested(self, resource: str) -> Int64Column:
        changing = self._changing.get(resource)
        return super().requested(resource) if changing is None else changing

    def usual_at(self, rows: Rows, *, with_defaults: bool) -> tuple[Block, Block]:
        if with_defaults:
            raise Inexact("what pods take with defaults")
        return super().usual_at(rows, with_defaults=False)

    def is_nowhere(self, resource: str) -> bool:
        return resource not in self._changing and super().is_nowhere(resource)

    def _changing_column(self, resource: str) -> Int64Column:
        column = self._changing.get(resource)
        if column is None:
            column = self._changing[resource] = super().requested(resource).copy()
        return column

    def take_away(self, is_gone: npt.NDArray[np.bool_]) -> None:
        """Take pods from every row. ``is_gone``: bool, one line a place and one entry a row, as in the charges."""
        self._arrays["pod_count"] -= is_gone.sum(axis=0)
        for column, matrix in self._changed:
            column -= np.einsum("ij,ij->j", matrix, is_gone)

    def change(self, place: int, rows: npt.NDArray[np.bool_], sign: int) -> None:
        """Give back (+1), or take (-1), the pod at ``place`` of each of these rows (bool, one a row)."""
        self._arrays["pod_count"] += sign * rows
        for column, matrix in self._changed:
            column += sign * (matrix[place] * rows)

    def set_beside(self, pods: Mapping[int, Sequence[PodInfo]]) -> None:
        """Set which pods ``change_beside`` puts on which rows."""
        counts = np.zeros(self.size, np.int64)
        vectors: list[ResourceVector] = []
        places: list[int] = []
        for place, infos in pods.items():
            counts[place] = len(infos)
            vectors += [info.charged for info in infos]
            places += [place] * len(infos)
        self._beside = [(self._arrays["pod_count"], counts)]

        def add(column: Int64Column, amounts: list[int]) -> None:
            if any(amounts):
                total = np.zeros(self.size, np.int64)
                np.add.at(total, places, amounts)
                self._beside.append((column, total))

        add(self._arrays["requested_cpu"], [vector.milli_cpu for vector in vectors])
        add(self._arrays["requested_memory"], [vector.memory for vector in vectors])
        add(self._arrays["requested_storage"], [vector.ephemeral_storage for vector in vectors])
        for name in sorted({name for vector in vectors for name in vector.scalars}):
            amounts = [vector.scalars.get(name, 0) for vector in vectors]
            add(self._changing_column(name), amounts)

    def change_beside(self, sign: int) -> None:
        """Add (+1), or take (-1), the pods of ``set_beside``."""
        for column, total in self._beside:
            column += sign * total

    def __getattr__(self, name: str) -> NoReturn:
        raise Inexact(name)


def as_places(matrix: npt.NDArray[Any], rows: npt.NDArray[np.int64], width: int) -> npt.NDArray[Any]:
    """One line a place, one entry a row: what the pods at one place of all rows have, is contiguous."""
    return np.ascontiguousarray(matrix[rows, :width].T)
