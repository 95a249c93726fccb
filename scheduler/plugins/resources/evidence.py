"""What a pod needs of the resources that a node is short of, and how much of them is free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from scheduler.cluster.table import NodeTable
from scheduler.framework.findings import Cause, RowArray
from scheduler.objects.amounts import amount_text


class Wanted(NamedTuple):
    """An amount above 0. ``is_delegated``: nodes without any of the resource are another plugin's concern."""

    resource: str
    amount: int
    is_delegated: bool


def shortfalls(needs: Iterable[Wanted], table: NodeTable, rows: RowArray) -> Iterator[Cause]:
    """A cause for the number of pods and for each resource, with the rows that are short of it."""
    full = table.pod_count[rows] >= table.allocatable_pods[rows]
    yield Cause(full, partial(_too_many_pods, table))
    for need in needs:
        if table.is_nowhere(need.resource):
            nowhere = np.full(len(rows), not need.is_delegated)
            yield Cause(nowhere, partial(_nowhere, need))
            continue
        offered = table.allocatable(need.resource)[rows]
        is_short = (offered - table.requested(need.resource)[rows]) < need.amount
        if need.is_delegated:
            is_short &= offered > 0
        yield Cause(is_short, partial(_too_little, table, need))


def _too_many_pods(table: NodeTable, rows: RowArray) -> str:
    most = int(table.allocatable_pods[rows].max())
    return (
        f"pods: {most} are there of {most}" if len(rows) == 1 else f"pods: as many are there as may be, at most {most}"
    )


def _nowhere(need: Wanted, _rows: RowArray) -> str:
    return f"{need.resource}: needs {amount_text(need.resource, need.amount)}, no node has any"


def _too_little(table: NodeTable, need: Wanted, rows: RowArray) -> str:
    offered = table.allocatable(need.resource)[rows]
    free = np.maximum(offered - table.requested(need.resource)[rows], 0)
    best = int(free.argmax())
    wanted, most, whole = [
        amount_text(need.resource, int(amount)) for amount in (need.amount, free[best], offered[best])
    ]
    text = f"{need.resource}: needs {wanted}, "
    if len(rows) == 1:
        text += f"{most} of {whole} free"
    else:
        text += f"at most {most} of {whole} free (on {table.names[int(rows[best])]})"
    largest = int(offered.max())
    if largest < need.amount:
        text += f"; even empty, no more than {amount_text(need.resource, largest)}"
    return text
