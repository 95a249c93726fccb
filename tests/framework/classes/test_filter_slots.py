"""Answers by the values of a label: which rows a change of them concerns."""

from __future__ import annotations

from typing import cast

import numpy as np

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.view import View
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.filter_slots import FilterSlot, KnownByValue, takes_values
from scheduler.framework.classes.first_refusals import CodedRows
from scheduler.framework.classes.refusal_table import RefusalTable
from scheduler.framework.shortcuts import ByValue
from scheduler.messages.status import Code, Refusal
from scheduler.plugins.node_unschedulable import NodeUnschedulable

ZONE = "topology.kubernetes.io/zone"
FULL = (Refusal(Code.UNSCHEDULABLE, ("full",)),)


class _Run:
    """All that is read of a run here."""

    def __init__(self, view: View) -> None:
        self.view = view


def _zones(*refused: str, view: View) -> KnownByValue:
    """The answer that refuses the nodes of these zones."""
    column = view.table.label_values(ZONE)
    codes = np.zeros(len(column), np.int16)
    codes[[column.find(zone) for zone in refused]] = 1
    return KnownByValue(ByValue(ZONE, codes, FULL), view.table.labels_version, view.table.size)


def _blocks(before: KnownByValue, now: KnownByValue, view: View) -> list[tuple[list[int], int]] | None:
    """The rows that are updated, with their codes; None where all must be."""
    slot, found = FilterSlot(0, NodeUnschedulable(), has_pre_filter=False), list[CodedRows]()
    slot.known = before
    if not takes_values(slot, now, cast(ClassRun, _Run(view)), RefusalTable(), found):
        return None
    return [(rows.tolist(), code) for rows, code in found]


def _view_of_nine_nodes() -> View:
    cache = ClusterCache()
    for number in range(9):
        cache.observe_node(testing.node(f"n{number}", zone=f"z{number % 3}"))
    return cache.view


def test_the_rows_of_the_value_that_changed_are_updated() -> None:
    view = _view_of_nine_nodes()
    assert _blocks(_zones(view=view), _zones("z1", view=view), view) == [([1, 4, 7], 1)]
    assert _blocks(_zones("z1", view=view), _zones(view=view), view) == [([1, 4, 7], 0)]
    assert _blocks(_zones("z1", view=view), _zones("z1", view=view), view) == []


def test_all_rows_are_updated_where_most_have_a_value_that_changed() -> None:
    view = _view_of_nine_nodes()
    assert _blocks(_zones(view=view), _zones("z0", "z1", view=view), view) is None


def test_a_value_that_no_row_has_is_not_updated() -> None:
    some = _view_of_nine_nodes().take((0, 1, 3, 4))
    assert _blocks(_zones(view=some), _zones("z2", view=some), some) == []
