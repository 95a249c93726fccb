"""NodeTable: one row a node, one array a column.

Rows are stable while a node exists, and used again after it is gone. A row may have pods without a Node object (pods
seen before their node, or left behind by it): then ``exists`` is False and no pod is placed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

import numpy as np
import numpy.typing as npt

from scheduler.cluster.amounts import Amounts
from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.label_columns import LabelColumn, LabelColumns
from scheduler.cluster.node_order import NodeOrder
from scheduler.cluster.offer import Offer
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.rows_by_key import RowsByKey
from scheduler.cluster.vocabulary import TableVocabulary
from scheduler.errors import InvariantViolation
from scheduler.objects.node import Node
from scheduler.objects.ports import HostPort, PortKey, key_of
from scheduler.objects.resources import ResourceVector, allocatable_of

Int64Column = npt.NDArray[np.int64]
Int32Column = npt.NDArray[np.int32]

_INT64_COLUMNS = (
    "allocatable_cpu",  # milli-CPU
    "allocatable_memory",  # bytes
    "allocatable_storage",  # bytes of ephemeral storage
    "allocatable_pods",
    "requested_cpu",
    "requested_memory",
    "requested_storage",
    "non_zero_cpu",  # as requested, with defaults for pods that request nothing
    "non_zero_memory",
    "pod_count",
)


class NodeTable:
    """Columns are numpy arrays of length ``size``; read them, and change them through the methods only."""

    def __init__(self, vocabulary: TableVocabulary | None = None, capacity: int = 16) -> None:
        self.vocabulary = vocabulary or TableVocabulary()
        self.size = 0
        """Rows in use, those without a node included: columns are cut to this length."""
        self.node_count = 0
        self.node_version = 0
        """Grows when a node comes, goes, or changes in what a decision reads of it; heartbeats do not count."""
        self.names_version = 0
        """Grows when a row gets a name or loses it."""
        self.order = NodeOrder()
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        self.ports: list[dict[HostPort, None] | None] = []
        self.rows_by_port: RowsByKey[PortKey] = RowsByKey()
        """By port, whatever the address, the pods that have it: where ``ports`` is worth a look."""
        self._row_of: ForkableDict[str, int] = ForkableDict()
        self._free: list[int] = []
        self._capacity = capacity
        self._arrays: dict[str, Int64Column] = {name: np.zeros(capacity, np.int64) for name in _INT64_COLUMNS}
        self._exists: npt.NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._unschedulable: npt.NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._taint_set: Int32Column = np.zeros(capacity, np.int32)
        self._feature_set: Int32Column = np.zeros(capacity, np.int32)
        self._labels = LabelColumns()
        self._allocatable = Amounts()
        self._requested = Amounts()
        self._offers: dict[str, Offer] = {}
        self._forks: list[ref[NodeTable]] = []
        self._parent: NodeTable | None = None
        """Of a fork; it must live as long, since it shares what neither has changed."""
        self._private_rows: set[int] | None = None
        """Rows whose pods and ports no other side holds; None: all of them, since no fork lives."""
        self._cut()

    # --- reading ------------------------------------------------------------------------------------------------------

    allocatable_cpu: Int64Column
    allocatable_memory: Int64Column
    allocatable_storage: Int64Column
    allocatable_pods: Int64Column
    requested_cpu: Int64Column
    requested_memory: Int64Column
    requested_storage: Int64Column
    non_zero_cpu: Int64Column
    non_zero_memory: Int64Column
    pod_count: Int64Column

    def row(self, name: str) -> int | None:
        """The row of a name, also of one without a Node object; None if there is none."""
        return self._row_of.get(name)

    def existing_row(self, name: str) -> int | None:
        """The row of a node that exists."""
        row = self._row_of.get(name)
        return row if row is not None and self._exists[row] else None

    def allocatable(self, resource: str) -> Int64Column:
        """What the nodes offer of a resource, by its name: milli-CPU, bytes, pods, or units of any other; 0 where a
        node has none."""
        match resource:
            case "cpu":
                return self.allocatable_cpu
            case "memory":
                return self.allocatable_memory
            case "ephemeral-storage":
                return self.allocatable_storage
            case "pods":
                return self.allocatable_pods
            case _:
                return self._allocatable.column(resource, self.size)

    def requested(self, resource: str) -> Int64Column:
        """What the pods on the rows take of a resource, in the same units; of pods, how many they are."""
        match resource:
            case "cpu":
                return self.requested_cpu
            case "memory":
                return self.requested_memory
            case "ephemeral-storage":
                return self.requested_storage
            case "pods":
                return self.pod_count
            case _:
                return self._requested.column(resource, self.size)

    def is_nowhere(self, resource: str) -> bool:
        """Whether no node offers any of a resource, and no pod takes any."""
        if resource in ("cpu", "memory", "ephemeral-storage", "pods"):
            return False
        return resource not in self._allocatable and resource not in self._requested

    def offer(self, resource: str, allocatable: Int64Column) -> Offer:
        """What is worked out about the column of a resource, as long as no node changes."""
        offer = self._offers.get(resource)
        if offer is None or offer.node_version != self.node_version or len(offer.divisor) != self.size:
            offer = self._offers[resource] = Offer(allocatable, self.node_version)
        return offer

    def label(self, key: str) -> Int32Column:
        """Ids of the nodes' values of a label key (``label_values(key)``), ABSENT where a node lacks it. They hold
        until a node changes (``node_version``)."""
        return self._labels.column(key, self._capacity).ids[: self.size]

    def label_values(self, key: str) -> LabelColumn:
        """The values of a key by id: those that a node here has, and no others."""
        return self._labels.column(key, self._capacity)

    def narrow_rows(self, key: str) -> tuple[int, ...] | None:
        """The rows whose nodes have a label key, ascending, where these are few; None where they may be many."""
        return self._labels.narrow_rows(key)

    def has_unique_labels(self, key: str) -> bool:
        """Whether no two nodes share a value of a label key."""
        return self._labels.column(key, self._capacity).is_unique

    # --- nodes --------------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> int:
        """Add a node or replace its object; its pods stay. Returns the row."""
        name = node.metadata.name
        row = self._row_of.get(name)
        if row is None:
            row = self._new_row(name)
        if not self._exists[row]:
            self._exists[row] = True
            self.node_count += 1
        self.node_version += 1
        self.order.put(row, node.metadata.labels)
        self._set_node_columns(row, node)
        self.nodes[row] = node
        self._give_back_ids()
        return row

    def refresh_node(self, node: Node) -> int:
        """Replace a Node object by another that decides alike (a heartbeat). Returns the row."""
        row = self._row_of[node.metadata.name]
        self.nodes[row] = node
        return row

    def drop_node(self, name: str) -> int | None:
        """Forget a Node object; the row stays while pods are on it. Returns the row, None if there was no such node."""
        row = self.existing_row(name)
        if row is None:
            return None
        self._exists[row] = False
        self.node_count -= 1
        self.node_version += 1
        self.order.drop(row)
        self._clear_node_columns(row)
        self.nodes[row] = None
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
        self.pods[row][info.uid] = info
        self._charge(row, info, 1)
        if info.ports:
            used = self.ports[row]
            if used is None:
                used = self.ports[row] = {}
            for port in info.ports:
                used[port] = None
                self.rows_by_port.add(key_of(port), row)
        return row

    def remove_pod(self, row: int, uid: str) -> PodInfo:
        """Take a pod off its row. Raises KeyError if it is not there."""
        if self._private_rows is not None:
            self._own_row(row)
        info = self.pods[row].pop(uid)
        self._charge(row, info, -1)
        for port in info.ports:
            self.rows_by_port.remove(key_of(port), row)
        used = self.ports[row]
        if info.ports and used is not None:
            # A set, not a count: as in kube-scheduler, one of two pods that (illegally) share a port frees it.
            for port in info.ports:
                used.pop(port, None)
        self._release(row)
        return info

    def replace_pod(self, row: int, info: PodInfo) -> None:
        """Another version of a pod on its row that takes exactly as much of it."""
        if self._private_rows is not None:
            self._own_row(row)
        self.pods[row][info.uid] = info

    def _charge(self, row: int, info: PodInfo, sign: int) -> None:
        arrays = self._arrays
        charged = info.charged
        non_zero_cpu, non_zero_memory = info.non_zero
        arrays["requested_cpu"][row] += sign * charged.milli_cpu
        arrays["requested_memory"][row] += sign * charged.memory
        if charged.ephemeral_storage:
            arrays["requested_storage"][row] += sign * charged.ephemeral_storage
        arrays["non_zero_cpu"][row] += sign * non_zero_cpu
        arrays["non_zero_memory"][row] += sign * non_zero_memory
        arrays["pod_count"][row] += sign
        if charged.scalars:
            for name, amount in charged.scalars.items():
                self._requested.add(name, row, sign * amount)

    # --- parts and forks ----------------------------------------------------------------------------------------------

    def take(self, rows: Sequence[int]) -> NodeTable:
        """A table of these rows (then rows 0, 1, ...) that may be changed without touching this one."""
        other = NodeTable(self.vocabulary, capacity=max(len(rows), 1))
        other.size = len(rows)
        for place, row in enumerate(rows):
            node = self.nodes[row]
            if node is not None:
                other.node_count += 1
                other.order.put(place, node.metadata.labels)
            name = self.names[row]
            other.names.append(name)
            other.nodes.append(node)
            other.pods.append(dict(self.pods[row]))
            used = self.ports[row]
            other.ports.append(dict(used) if used is not None else None)
            if used is not None:
                for port in [port for info in self.pods[row].values() for port in info.ports]:
                    other.rows_by_port.add(key_of(port), place)
            other._row_of[name] = place
        other._take_columns(self, np.array(rows, dtype=np.int64))
        other._labels = self._labels.taken(rows)
        other._allocatable = self._allocatable.taken(rows)
        other._requested = self._requested.taken(rows)
        other._cut()
        return other

    def fork(self) -> NodeTable:
        """The whole table; neither side sees what the other does from now on. Columns are copied, the pods of a row
        when either side changes them."""
        other = NodeTable(self.vocabulary, capacity=self._capacity)
        other._parent = self
        other.size = self.size
        other.node_count = self.node_count
        other.node_version = self.node_version
        other.names_version = self.names_version
        other.order = self.order.fork()
        other.names = self.names[:]
        other.nodes = self.nodes[:]
        other.pods = self.pods[:]
        other.ports = self.ports[:]
        other.rows_by_port = self.rows_by_port.fork()
        other._row_of = self._row_of.fork()
        other._free = self._free[:]
        other._offers = dict(self._offers)
        other._take_columns(self, slice(None))
        other._labels = self._labels.fork()
        other._allocatable = self._allocatable.fork()
        other._requested = self._requested.fork()
        other._cut()
        self._forks.append(ref(other, self._forget_fork))
        self._private_rows, other._private_rows = set(), set()
        return other

    def _forget_fork(self, gone: ref[NodeTable]) -> None:
        self._forks.remove(gone)
        if not self._forks and self._parent is None:
            self._private_rows = None

    def _own_row(self, row: int) -> None:
        """The pods and ports of a row are about to change, and perhaps a fork or a parent has the same."""
        private = self._private_rows  # The last fork may die in the middle of this, whenever garbage is collected.
        if private is not None and row not in private:
            private.add(row)
            self.pods[row] = dict(self.pods[row])
            used = self.ports[row]
            self.ports[row] = None if used is None else dict(used)

    def _take_columns(self, source: NodeTable, piece: slice | Int64Column) -> None:
        self._arrays = {name: array[piece].copy() for name, array in source._arrays.items()}
        self._exists = source._exists[piece].copy()
        self._unschedulable = source._unschedulable[piece].copy()
        self._taint_set = source._taint_set[piece].copy()
        self._feature_set = source._feature_set[piece].copy()

    def check(self) -> None:
        """Raise InvariantViolation unless the columns of labels are what the nodes say."""
        if not self._labels.check([None if node is None else node.metadata.labels for node in self.nodes]):
            raise InvariantViolation("columns of labels differ from the nodes' labels")

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
            self.nodes.append(None)
            self.pods.append({})
            self.ports.append(None)
            self.size += 1
            self._cut()
        self._row_of[name] = row
        self.names_version += 1
        return row

    def _release(self, row: int) -> None:
        if self._exists[row] or self.pods[row]:
            return
        del self._row_of[self.names[row]]
        self.names[row] = ""
        self.names_version += 1
        self.ports[row] = None
        self._free.append(row)

    def _grow(self) -> None:
        self._capacity *= 2
        more = self._capacity

        def longer(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
            grown = np.zeros(more, array.dtype)
            grown[: len(array)] = array
            return grown

        for name, array in self._arrays.items():
            self._arrays[name] = longer(array)  # type: ignore[assignment]
        for attribute in ("_exists", "_unschedulable", "_taint_set", "_feature_set"):
            setattr(self, attribute, longer(getattr(self, attribute)))

    def _cut(self) -> None:
        """Make the public columns: views of the first ``size`` entries."""
        size = self.size
        for name, array in self._arrays.items():
            setattr(self, name, array[:size])
        self.exists = self._exists[:size]
        self.unschedulable = self._unschedulable[:size]
        self.taint_set = self._taint_set[:size]
        self.feature_set = self._feature_set[:size]

    def _give_back_ids(self) -> None:
        """Go over to another vocabulary where most of this one's values are of nodes that are gone."""
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
        self._cut()

    # --- columns of a Node object -------------------------------------------------------------------------------------

    def _set_node_columns(self, row: int, node: Node) -> None:
        arrays = self._arrays
        offered = allocatable_of(node)
        arrays["allocatable_cpu"][row] = offered.milli_cpu
        arrays["allocatable_memory"][row] = offered.memory
        arrays["allocatable_storage"][row] = offered.ephemeral_storage
        arrays["allocatable_pods"][row] = offered.pods
        self._put_scalars(row, self.nodes[row], offered)
        self._unschedulable[row] = node.spec.unschedulable
        taints = tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        self._taint_set[row] = self.vocabulary.taints.intern(taints) if taints else ABSENT
        features = frozenset(node.status.declared_features)
        self._feature_set[row] = self.vocabulary.features.intern(features) if features else ABSENT
        self._labels.put(row, node.metadata.labels)

    def _put_scalars(self, row: int, old: Node | None, offered: ResourceVector) -> None:
        for name in allocatable_of(old).scalars if old is not None else ():
            if name not in offered.scalars:
                self._allocatable.put(name, row, 0)
        for name, amount in offered.scalars.items():
            self._allocatable.put(name, row, amount)

    def _clear_node_columns(self, row: int) -> None:
        self._put_scalars(row, self.nodes[row], ResourceVector())
        for name in ("allocatable_cpu", "allocatable_memory", "allocatable_storage", "allocatable_pods"):
            self._arrays[name][row] = 0
        self._unschedulable[row] = False
        self._taint_set[row] = ABSENT
        self._feature_set[row] = ABSENT
        self._labels.drop(row)
