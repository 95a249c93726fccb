"""Findings of plugins: the values behind their refusals, for each group of nodes that they concern alike.

For people only: nothing here decides anything. A plugin names its causes, each with the rows that it holds on; rows
with the same causes are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.interning import ABSENT
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.plugin import Finding

RowArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MAX_GROUPS: Final = 20
"""Groups of nodes in the findings of one plugin, largest first."""
MAX_NAMES: Final = 10
"""Nodes named of a group."""
MAX_CAUSES: Final = 62
"""Causes kept apart: as many as a group's number has bits."""
MAX_VALUES: Final = 5
"""Values of a label that are listed."""
MAX_PODS: Final = 3
"""Pods that are named as being in the way."""


class Cause(Struct, frozen=True):
    """One thing that speaks against rows. ``holds``: bool, one a row asked. ``text``: describes it for some of them."""

    holds: Mask
    text: Callable[[RowArray], str]


def grouped(view: View, rows: RowArray, causes: Iterable[Cause]) -> tuple[Finding, ...]:
    """The causes by group of ``rows``, the largest group first; rows without any are left out."""
    found = list(islice((cause for cause in causes if cause.holds.any()), MAX_CAUSES))
    marks = np.zeros(len(rows), np.int64)
    for place, cause in enumerate(found):
        marks |= cause.holds.astype(np.int64) << place
    values, sizes = np.unique(marks, return_counts=True)
    groups = sorted(
        [(int(mark), int(size)) for mark, size in zip(values, sizes, strict=True) if mark],
        key=lambda group: (-group[1], group[0]),
    )
    findings = []
    for mark, size in groups[:MAX_GROUPS]:
        members = rows[marks == mark]
        names = tuple([view.table.names[row] for row in members[:MAX_NAMES].tolist()])
        lines = tuple([cause.text(members) for place, cause in enumerate(found) if mark >> place & 1])
        findings.append(Finding(size, names, lines))
    return tuple(findings)


def label_values(table: NodeTable, key: str, rows: RowArray) -> str:
    """What these rows have under a label key: ``zone=a on 3, no zone on 1``; the counts are left out for one value."""
    ids, counts = np.unique(table.label(key)[rows], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    texts = [_labelled(table, key, int(ids[place])) for place in order[:MAX_VALUES]]
    if len(ids) == 1:
        return texts[0]
    parts = [f"{text} on {counts[place]}" for text, place in zip(texts, order.tolist(), strict=False)]
    return ", ".join(parts) + (f", and {len(ids) - MAX_VALUES} other values" if len(ids) > MAX_VALUES else "")


def labels_listed(table: NodeTable, key: str, value_ids: Sequence[int]) -> str:
    """The labels as ``zone=a, zone=b``, at most ``MAX_VALUES`` of them."""
    texts = [_labelled(table, key, value_id) for value_id in value_ids[:MAX_VALUES]]
    more = len(value_ids) - MAX_VALUES
    return ", ".join(texts) + (f", and {more} more" if more > 0 else "")


def pods_on(table: NodeTable, rows: Iterable[int], is_meant: Callable[[PodInfo], bool]) -> str:
    """The first pods on these rows for which ``is_meant`` holds, by name."""
    names: list[str] = []
    for row in rows:
        for info in table.pods[row].values():
            if is_meant(info):
                if len(names) == MAX_PODS:
                    return f"{', '.join(names)}, …"
                names.append(f"{info.key} on {table.names[row]}")
    return ", ".join(names)


def _labelled(table: NodeTable, key: str, value_id: int) -> str:
    return f"no label {key}" if value_id == ABSENT else f"{key}={table.label_values(key).value(value_id)}"
