"""Topology domains: the nodes that share a value of a label key, counted by the value's id."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler.cluster.interning import ABSENT
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.table import NodeTable

DomainCounts = npt.NDArray[np.int64]
"""int64 by the id of a label value. Nodes without the label are in no domain: entry 0 is 0."""


def count_domains(
    table: NodeTable, key: str, counts: RowCounts, mask: npt.NDArray[np.bool_] | None = None
) -> DomainCounts:
    """Sums of ``counts`` over the rows of each domain; with a ``mask`` over those rows only."""
    ids, length = table.label(key), len(table.label_values(key))
    # Rows whose node is gone lack every label, so what still runs there falls out with entry 0.
    sums = counts.by_value(ids, length, mask, is_unique=table.has_unique_labels(key))
    sums[ABSENT] = 0
    return sums


def widened(counts: DomainCounts, table: NodeTable, key: str) -> DomainCounts:
    """``counts`` with an entry for every value known by now."""
    missing = len(table.label_values(key)) - len(counts)
    return counts if missing <= 0 else np.append(counts, np.zeros(missing, np.int64))
