"""NodeTable: one row a node, one array a column.

Rows are stable while a node exists, and used again after it is gone. A row may have pods without a Node object (pods
seen before their node, or left behind by it): then ``exists`` is False and no pod is placed there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from weakref import ref

import numpy as np
import numpy.typing as npt

from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.node_columns import NodeColumns
from scheduler.cluster.node_order import NodeOrder
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.priority_counts import PriorityCounts
from scheduler.cluster.rows_by_key import RowsByKey
from scheduler.cluster.vocabulary import TableVocabulary
from scheduler.errors import InvariantViolation
from scheduler.objects.changes import ALLOCATABLE, DECISIVE, FEATURES, LABELS, SPEC, node_difference
from scheduler.objects.node import Node
from scheduler.objects.ports import HostPort, PortKey, key_of
from scheduler.objects.selectors import Selector


class Versions:
    """Version numbers, unique among all tables of one cluster, forks included."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest = 0

    def next(self) -> int:
        self._latest += 1
        return self._latest


class NodeTable(NodeColumns):
    """Columns are numpy arrays of length ``size``; read them, and change them through the methods only."""

    def __init__(self, vocabulary: TableVocabulary | None = None, capacity: int = 16) -> None:
        super().__init__(vocabulary, capacity)
        self.priorities: PriorityCounts | None = PriorityCounts()
        """Of all pods; None in a table of some rows, where nothing counts them."""

    def _begin(self, vocabulary: TableVocabulary, capacity: int) -> None:
        super()._begin(vocabulary, capacity)
        self.node_count = 0
        self.versions = Versions()
        """Where the numbers of ``row_version`` come from: another one whenever the row's Node object, or one of its
        pods, is another."""
        self.names_version = 0
        """Grows when a row gets a name or loses it."""
        self.named_at: list[int] = []
        """By row, the ``names_version`` since which it has its name: a node that was gone has another one."""
        self.order = NodeOrder()
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        self.ports: list[dict[HostPort, None] | None] = []
        self.rows_by_port: RowsByKey[PortKey] = RowsByKey()
        """By port, whatever the address, the pods that have it: where ``ports`` is worth a look."""
        self._row_of: ForkableDict[str, int] = ForkableDict()
        self._free: list[int] = []
        self._forks: list[ref[NodeTable]] = []
        self._parent: NodeTable | None = None
        """Of a fork; it must live as long, since it shares what neither has changed."""
        self._private_rows: set[int] | None = None
        """Rows whose pods and ports no other side holds; None: all of them, since no fork lives."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def row(self, name: str) -> int | None:
        """The row of a node name, with or without a Node object; None if there is none."""
        return self._row_of.get(name)

    def existing_row(self, name: str) -> int | None:
        """The row of a node name with a Node object; None if there is none."""
        row = self._row_of.get(name)
        return row if row is not None and self._exists[row] else None

    def existing_rows(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """The rows of those of the node names that have a Node object, ascending."""
        return np.array(sorted([row for name in names if (row := self.existing_row(name)) is not None]), np.int64)

    def node(self, name: str) -> Node | None:
        """The Node object of a name; None if there is none."""
        row = self._row_of.get(name)
        return None if row is None else self.nodes[row]

    def selected(self, selector: Selector) -> npt.NDArray[np.bool_]:
        """A mask of the rows whose nodes a label selector accepts; cached, so do not change it."""
        return self._selected.mask(selector, self.nodes, self._capacity)[: self.size]

    # --- nodes --------------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> int:
        """Add a node, or replace its object and keep its pods. Returns the row."""
        name = node.metadata.name
        row = self._row_of.get(name)
        if row is None:
            row = self._new_row(name)
        if not self._exists[row]:
            self._exists[row] = True
            self.node_count += 1
        old = self.nodes[row]
        self._set_node(row, old, node, DECISIVE if old is None else node_difference(old, node) & DECISIVE)
        return row

    def replace_node(self, old: Node, node: Node, difference: int) -> int:
        """Replace a Node object by another version: only what differs is written, of a heartbeat nothing. Returns the
        row. ``difference``: of the two."""
        row: int = self._row_of[node.metadata.name]
        if difference & DECISIVE:
            self._set_node(row, old, node, difference)
        else:
            self.nodes[row] = node
            self._row_version[row] = self.versions.next()
        return row

    def _set_node(self, row: int, old: Node | None, node: Node, difference: int) -> None:
        self.node_version += 1
        if difference & LABELS:
            self.labels_version += 1
            self.order.put(row, node.metadata.labels)
        if difference & ALLOCATABLE:
            self.allocatable_version += 1
        self._set_node_columns(row, old, node, difference)
        self.nodes[row] = node
        self._row_version[row] = self.versions.next()
        if difference & (SPEC | FEATURES) and (node.spec.taints or node.status.declared_features):
            self._give_back_ids()

    def drop_node(self, name: str) -> int | None:
        """Forget a Node object; the row stays while pods are on it. Returns the row, None if there was no such node."""
        row = self.existing_row(name)
        if row is None:
            return None
        self._exists[row] = False
        self.node_count -= 1
        self.node_version += 1
        self.labels_version += 1
        self.allocatable_version += 1
        self.order.drop(row)
        self._clear_node_columns(row, self.nodes[row])
        self.nodes[row] = None
        self._row_version[row] = self.versions.next()
        self._release(row)
        return row

    # --- pods ---------------------------------------------------------------------------------------------------------

    def add_pod(self, info: PodInfo, name: str | None = None) -> int:
        """Charge a pod to its node (made without a Node object where it is unknown). Returns the row."""
        node_name = info.node_name if name is None else name
        row = self._row_of.get(node_name)
        if row is None:
            row = self._new_row(node_name)
        if self._private_rows is not None:
            self._own_row(row)
        self.add_pod_to(row, info)
        return row

    def add_pod_to(self, row: int, info: PodInfo) -> None:
        """Charge a pod to a row of a table without forks."""
        self.pods[row][info.uid] = info
        self._row_version[row] = self.versions.next()
        self._charge(row, info, 1)
        if self.priorities is not None:
            self.priorities.add(info.priority)
        if info.ports:
            self._use_ports(row, info.ports)

    def _use_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        used = self.ports[row]
        if used is None:
            used = self.ports[row] = {}
        for port in ports:
            used[port] = None
            self.rows_by_port.add(key_of(port), row)

    def remove_pod(self, row: int, uid: str) -> PodInfo:
        """Take a pod off its row. Raises KeyError if it is not there."""
        if self._private_rows is not None:
            self._own_row(row)
        info = self.pods[row].pop(uid)
        self._row_version[row] = self.versions.next()
        self._charge(row, info, -1)
        if self.priorities is not None:
            self.priorities.remove(info.priority)
        if info.ports:
            self._free_ports(row, info.ports)
        self._release(row)
        return info

    def _free_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            self.rows_by_port.remove(key_of(port), row)
        used = self.ports[row]
        if used is not None:
            # A set, not a count: as in kube-scheduler, one of two pods that (illegally) share a port frees it.
            for port in ports:
                used.pop(port, None)

    def replace_pod(self, row: int, info: PodInfo) -> bool:
        """Replace a pod of a row by another version that requests exactly as much; returns whether that takes ports
        again: as in kube-scheduler, those that another pod which shared them has freed."""
        if self._private_rows is not None:
            self._own_row(row)
        pods = self.pods[row]
        before = pods[info.uid].priority
        if self.priorities is not None and info.priority != before:
            self.priorities.add(info.priority)
            self.priorities.remove(before)
        pods[info.uid] = info
        self._row_version[row] = self.versions.next()
        used = self.ports[row]
        freed = [] if used is None else [port for port in info.ports if port not in used]
        if used is not None:
            used.update(dict.fromkeys(freed))
        return bool(freed)

    # --- parts and forks ----------------------------------------------------------------------------------------------

    def fork(self) -> NodeTable:
        """The whole table; neither side sees what the other does from now on. Columns are copied, the pods of a row
        when either side changes them."""
        other = NodeTable(self.vocabulary, capacity=self._capacity)
        other._parent = self
        other.versions = self.versions
        other.size = self.size
        other.node_count = self.node_count
        other.node_version = self.node_version
        other.labels_version, other.allocatable_version = self.labels_version, self.allocatable_version
        other.names_version = self.names_version
        other.order = self.order.fork()
        other.named_at = self.named_at[:]
        other.names = self.names[:]
        other.nodes = self.nodes[:]
        other.pods = self.pods[:]
        other.ports = self.ports[:]
        other.rows_by_port = self.rows_by_port.fork()
        other.priorities = None if self.priorities is None else self.priorities.fork()
        other._row_of = self._row_of.fork()
        other._free = self._free[:]
        other._offers, other._usual_offer = dict(self._offers), self._usual_offer
        other._copy_columns(self)
        other._labels = self._labels.fork()
        other._selected = self._selected.fork()
        other._allocatable = self._allocatable.fork()
        other._requested = self._requested.fork()
        other._uncut()
        self._forks.append(ref(other, self._forget_fork))
        self._private_rows, other._private_rows = set(), set()
        return other

    def _forget_fork(self, gone: ref[NodeTable]) -> None:
        self._forks.remove(gone)
        if not self._forks and self._parent is None:
            self._private_rows = None

    def _own_row(self, row: int) -> None:
        """Copy the pods and ports of a row before they change, where a fork or a parent may share them."""
        private = self._private_rows  # The last fork may die in the middle of this, whenever garbage is collected.
        if private is not None and row not in private:
            private.add(row)
            self.pods[row] = dict(self.pods[row])
            used = self.ports[row]
            self.ports[row] = None if used is None else dict(used)

    def check(self) -> None:
        """Raise InvariantViolation unless the columns of labels are what the nodes say."""
        if not self._labels.check([None if node is None else node.metadata.labels for node in self.nodes]):
            raise InvariantViolation("columns of labels differ from the nodes' labels")
        if not self._selected.check(self.nodes):
            raise InvariantViolation("rows that selectors accept differ from the nodes' labels")
        if self.priorities is not None and self.priorities.counts != Counter(
            [info.priority for pods in self.pods for info in pods.values()]
        ):
            raise InvariantViolation("the counts of priorities differ from the pods'")

    # --- rows and capacity --------------------------------------------------------------------------------------------

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.size
            if row == self._capacity:
                self._grow()
            self.names.append(name)
            self.named_at.append(0)
            self.nodes.append(None)
            self.pods.append({})
            self.ports.append(None)
            self.size += 1
            if self._is_cut:
                self._uncut()
        self._row_of[name] = row
        self._name_changed(row)
        return row

    def _release(self, row: int) -> None:
        if self.pods[row] or self._exists[row]:
            return
        del self._row_of[self.names[row]]
        self.names[row] = ""
        self._name_changed(row)
        self.ports[row] = None
        self._free.append(row)

    def _name_changed(self, row: int) -> None:
        self.names_version += 1
        self.named_at[row] = self.names_version

    def _give_back_ids(self) -> None:
        """Replace the vocabulary where most of its values belong to removed nodes."""
        if self._private_rows is not None:
            return
        taints = self.vocabulary.taints.compacted(self._taint_set)
        features = self.vocabulary.features.compacted(self._feature_set)
        if taints is None and features is None:
            return
        if taints is not None:
            self._taint_set = taints[1]
        if features is not None:
            self._feature_set = features[1]
        self.vocabulary = TableVocabulary(
            self.vocabulary.taints if taints is None else taints[0],
            self.vocabulary.features if features is None else features[0],
        )
        self._uncut()
