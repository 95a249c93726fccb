"""Where a search for victims pauses: by what the searches before it have looked at, and not by what is cached. So a
recording pauses where the original did, whatever its checkpoint has left out."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.cluster.table import NodeTable

PODS_A_STEP: Final = 1_000
"""New pods between two pauses: 2 to 4 ms."""

Rows = npt.NDArray[np.int64]


class SearchedRows:
    """Of each row the version in the table that was last looked at."""

    __slots__ = ("_versions",)

    def __init__(self) -> None:
        self._versions = np.zeros(0, np.int64)

    def look_at(self, table: NodeTable, rows: Rows) -> list[Rows]:
        """Note that these rows are looked at; returns those that have changed since, in parts with a pause between
        two of them."""
        if (more := table.size - len(self._versions)) > 0:
            self._versions = np.append(self._versions, np.zeros(more, np.int64))
        changed = rows[self._versions[rows] != table.row_version[rows]]
        self._versions[changed] = table.row_version[changed]
        steps = np.cumsum(table.pod_count[changed] + 1) // PODS_A_STEP
        return np.split(changed, np.flatnonzero(np.diff(steps)) + 1) if len(changed) else []
