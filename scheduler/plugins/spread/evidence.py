"""Which spread constraint keeps a pod off a node: the pods in its domain, and in the one that has the fewest."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from scheduler.cluster.domains import widened
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.table import NodeTable
from scheduler.framework.findings import MAX_VALUES, Cause, RowArray, labels_listed
from scheduler.plugins.spread.hard import HardConstraint
from scheduler.plugins.spread.state import SpreadFilterState


def causes(state: SpreadFilterState, table: NodeTable, rows: RowArray) -> Iterator[Cause]:
    """For each constraint: the rows that lack its key, and those whose domain would have too many pods."""
    for one in state.hard:
        key = one.constraint.topology_key
        column = table.label(key)[rows]
        yield Cause(column == ABSENT, partial(_no_key, key))
        counts = widened(one.counts, table, key)[column]
        yield Cause((column != ABSENT) & (counts > one.max_before()), partial(_uneven, table, one))


def _no_key(key: str, _rows: RowArray) -> str:
    return f"spread by {key}: the node has no such label"


def _uneven(table: NodeTable, one: HardConstraint, rows: RowArray) -> str:
    constraint = one.constraint
    key = constraint.topology_key
    counts = widened(one.counts, table, key)
    values = np.unique(table.label(key)[rows]).tolist()
    here = [f"{labels_listed(table, key, [value])} has {int(counts[value])}" for value in values[:MAX_VALUES]]
    more = f" and {len(values) - MAX_VALUES} more" if len(values) > MAX_VALUES else ""
    text = f"spread by {key}, maxSkew {constraint.max_skew}: {', '.join(here)}{more} of the pods with "
    text += f"{constraint.selector}; "
    if one.domains < constraint.min_domains:
        return text + f"the fewest count as 0, with {one.domains} of minDomains {constraint.min_domains}"
    fewest = np.flatnonzero(one.present & (one.counts[: len(one.present)] == one.lowest)).tolist()
    return text + f"the fewest are {one.lowest}, in {labels_listed(table, key, fewest)}"
