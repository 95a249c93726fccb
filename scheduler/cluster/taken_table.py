"""Some rows of a node table, to be changed without touching it.

A dry run takes a row and looks at its amounts and little else, so whatever else there is, is made when it is first
asked for. That is as good as a copy made at once: the other table stays as it is while this one is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.rows_by_key import RowsByKey
from scheduler.cluster.table import NodeTable, Versions
from scheduler.objects.node import Node
from scheduler.objects.ports import HostPort, PortKey, key_of


class TakenTable(NodeTable):
    """A private table of these rows of another, as rows 0, 1, ... Pods that come and go leave the versions of its rows
    alone: nothing is kept about it."""

    def __init__(self, source: NodeTable, rows: Sequence[int]) -> None:
        # The base classes' constructors are not called: they would make columns that are made on first use here.
        self._source = source
        self._listed = rows
        self._taken = taken = np.array(rows, np.int64)
        self.vocabulary = source.vocabulary
        self.size = len(rows)
        self._capacity = max(len(rows), 1)
        self.node_version = self.labels_version = self.allocatable_version = self.names_version = 0
        self.priorities = None
        self.names = [source.names[row] for row in rows]
        self.pods = [dict(source.pods[row]) for row in rows]
        self._private_rows = self._parent = None
        self._put_matrix(source._matrix.take(taken, axis=1))
        self.__dict__.update(self._arrays)

    def add_pod_to(self, row: int, info: PodInfo) -> None:
        self.pods[row][info.uid] = info
        self._charge(row, info, 1)
        if info.ports:
            self._use_ports(row, info.ports)

    def add_pods(self, pods: Mapping[int, Sequence[PodInfo]]) -> None:
        """``add_pod_to`` for many rows at once."""
        rows: list[int] = []
        infos: list[PodInfo] = []
        for row, added in pods.items():
            there = self.pods[row]
            for info in added:
                there[info.uid] = info
                rows.append(row)
                infos.append(info)
                if info.ports:
                    self._use_ports(row, info.ports)
        self._charge_all(np.array(rows, np.int64), infos)

    def remove_pod(self, row: int, uid: str) -> PodInfo:
        info = self.pods[row].pop(uid)
        self._charge(row, info, -1)
        if info.ports:
            self._free_ports(row, info.ports)
        self._release(row)
        return info

    def fork(self) -> NodeTable:
        raise NotImplementedError("a private table is not forked")

    def _new_row(self, name: str) -> int:
        for column in _MADE_LATER:
            getattr(self, column)  # all of them are needed, since a new row makes each column longer
        return super()._new_row(name)

    def __getattr__(self, name: str) -> object:
        make = _MADE_LATER.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        made = self.__dict__[name] = make(self)
        return made


def _rows_of(name: str, table: TakenTable) -> object:
    return getattr(table._source, name)[table._taken]


def _taken_by_number(name: str, table: TakenTable) -> object:
    return getattr(table._source, name).taken(table._listed)


def _nodes(table: TakenTable) -> list[Node | None]:
    return [table._source.nodes[row] for row in table._listed]


def _ports(table: TakenTable) -> list[dict[HostPort, None] | None]:
    there = [table._source.ports[row] for row in table._listed]
    return [None if used is None else dict(used) for used in there]


def _rows_by_port(table: TakenTable) -> RowsByKey[PortKey]:
    """From the pods as they were taken: the first pod with a port that comes or goes asks for it before."""
    found: RowsByKey[PortKey] = RowsByKey()
    source = table._source
    for place, row in enumerate(table._listed):
        if source.ports[row] is not None:
            for port in [port for info in source.pods[row].values() for port in info.ports]:
                found.add(key_of(port), place)
    return found


def _row_of(table: TakenTable) -> ForkableDict[str, int]:
    rows: ForkableDict[str, int] = ForkableDict()
    for place, name in enumerate(table.names):
        rows[name] = place
    return rows


_MADE_LATER: Final[Mapping[str, Callable[[TakenTable], object]]] = {
    **{
        name: partial(_rows_of, name)
        for name in ("_exists", "_unschedulable", "_taint_set", "_feature_set", "_row_version")
    },
    **{name: partial(_taken_by_number, name) for name in ("order", "_labels", "_allocatable", "_requested")},
    "_selected": lambda table: table._source._selected.taken(table._taken),
    "named_at": lambda table: [0] * table.size,
    "nodes": _nodes,
    "node_count": lambda table: sum([node is not None for node in table.nodes]),
    "ports": _ports,
    "rows_by_port": _rows_by_port,
    "versions": lambda _: Versions(),
    "_row_of": _row_of,
    "_offers": lambda _: {},
    "_usual_offer": lambda _: None,
    "_always": lambda _: {},
    "_free": lambda _: [],
}
