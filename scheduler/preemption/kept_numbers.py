"""A number for each pod of each row, cached until the pods of the row change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler.cluster.pod_info import PodInfo

Matrix = npt.NDArray[np.int64]
Lines = npt.NDArray[np.int64]
Measure = Callable[[int, Sequence["PodInfo"]], Sequence[int]]
"""(row, its pods by place) → a number of each."""
Facet = Callable[["PodInfo"], Hashable]


class _Columns(Protocol):
    """The part of the pod columns that is used here."""

    @property
    def infos(self) -> list[list[PodInfo]]: ...

    @property
    def priority(self) -> Matrix: ...

    @property
    def pods_versions(self) -> Matrix: ...


class KeptNumbers:
    """``matrix``: one line a row and one entry a place; lines hold for the rows of the last ``refresh``."""

    __slots__ = ("_measured", "_stamps", "matrix")

    def __init__(self) -> None:
        self.matrix: Matrix = np.zeros((0, 0), np.int64)
        self._measured = np.zeros(0, np.int64)
        self._stamps = np.zeros(0, np.int64)

    def refresh(self, columns: _Columns, rows: Lines, measure: Measure, stamps: Matrix | None) -> None:
        """Measure again those of the rows whose pods or whose stamp have changed."""
        if self.matrix.shape != columns.priority.shape:
            self.matrix = np.zeros(columns.priority.shape, np.int64)
            self._measured = np.full(len(self.matrix), -1, np.int64)
            self._stamps = np.full(len(self.matrix), -1, np.int64)
        versions = columns.pods_versions[rows]
        stale = self._measured[rows] != versions
        if stamps is not None:
            stale |= self._stamps[rows] != stamps[rows]
        if not stale.any():
            return
        width = self.matrix.shape[1]
        for row in rows[stale].tolist():
            infos = columns.infos[row]
            if len(infos) <= width:
                self.matrix[row] = 0
                self.matrix[row, : len(infos)] = measure(row, infos)
        self._measured[rows] = versions
        if stamps is not None:
            self._stamps[rows] = stamps[rows]


class KeptFacet(KeptNumbers):
    """Numbers for the values of a facet; 0 is the number of pods whose facet is false."""

    __slots__ = ("_facet", "_numbers", "examples")

    def __init__(self, facet: Facet) -> None:
        super().__init__()
        self._facet = facet
        self._numbers: dict[Hashable, int] = {}
        self.examples: list[PodInfo | None] = [None]
        """By number, a pod that has the value."""

    def measure(self, _: int, infos: Sequence[PodInfo]) -> list[int]:
        return [self._number(info) for info in infos]

    def _number(self, info: PodInfo) -> int:
        value = self._facet(info)
        if not value:
            return 0
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.examples)
            self.examples.append(info)
        return number
