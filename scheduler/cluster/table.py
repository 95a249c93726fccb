"""NodeTable: one row a node, one array a column.

Rows are stable while a node exists, and used again after it is gone. A row may have pods without a Node object (pods
seen before their node, or left behind by it): then ``exists`` is False and nobody places anything there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.cluster.interning import ABSENT, Interner, LabelValues
from scheduler.cluster.node_order import NodeOrder
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.rows_by_key import RowsByKey
from scheduler.objects.node import Node
from scheduler.objects.ports import HostPort, PortKey, key_of
from scheduler.objects.resources import allocatable_of

Int64Column = npt.NDArray[np.int64]
Int32Column = npt.NDArray[np.int32]

TaintKey = tuple[str, str, str]
"""(key, value, effect): what a toleration looks at."""

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


class TableVocabulary:
    """The ids that rows speak in; shared by a table and all that is copied from it."""

    __slots__ = ("features", "labels", "taints")

    def __init__(self) -> None:
        self.taints: Interner[tuple[TaintKey, ...]] = Interner()
        self.features: Interner[frozenset[str]] = Interner()
        self.labels: dict[str, LabelValues] = {}


class Offer:
    """What dividing by the allocatable amounts of a resource needs to know of them."""

    __slots__ = ("divisor", "is_everywhere", "largest", "node_version")

    def __init__(self, allocatable: Int64Column, node_version: int) -> None:
        self.node_version = node_version
        self.divisor = np.maximum(allocatable, 1).astype(np.float64)
        """One a row; 1 where a node offers nothing."""
        self.is_everywhere = bool(allocatable.all())
        self.largest = int(allocatable.max(initial=0))


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
        self._row_of: dict[str, int] = {}
        self._free: list[int] = []
        self._capacity = capacity
        self._arrays: dict[str, Int64Column] = {name: np.zeros(capacity, np.int64) for name in _INT64_COLUMNS}
        self._exists: npt.NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._unschedulable: npt.NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._taint_set: Int32Column = np.zeros(capacity, np.int32)
        self._feature_set: Int32Column = np.zeros(capacity, np.int32)
        self._label_columns: dict[str, Int32Column] = {}
        self._allocatable_scalars: dict[str, Int64Column] = {}
        self._requested_scalars: dict[str, Int64Column] = {}
        self._offers: dict[str, Offer] = {}
        self._unique_labels: dict[str, tuple[int, bool]] = {}
        """Label key → for which ``node_version``, and whether it is unique."""
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

    def allocatable_scalar(self, name: str) -> Int64Column:
        """Allocatable amount of an extended or other scalar resource; 0 where the node has none."""
        column = self._allocatable_scalars.get(name)
        return self._zeros if column is None else column[: self.size]

    def requested_scalar(self, name: str) -> Int64Column:
        column = self._requested_scalars.get(name)
        return self._zeros if column is None else column[: self.size]

    def offer(self, resource: str, allocatable: Int64Column) -> Offer:
        """What is worked out about the column of a resource, as long as no node changes."""
        offer = self._offers.get(resource)
        if offer is None or offer.node_version != self.node_version or len(offer.divisor) != self.size:
            offer = self._offers[resource] = Offer(allocatable, self.node_version)
        return offer

    def label(self, key: str) -> Int32Column:
        """Ids of the nodes' values of a label key (``label_values(key)``), ABSENT where a node lacks it.

        The column is made when a key is first asked for and kept up to date from then on.
        """
        column = self._label_columns.get(key)
        if column is None:
            column = np.zeros(self._capacity, np.int32)
            values = self.vocabulary.labels.setdefault(key, LabelValues())
            for row, node in enumerate(self.nodes):
                if node is not None:
                    value = node.metadata.labels.get(key)
                    column[row] = ABSENT if value is None else values.intern(value)
            self._label_columns[key] = column
        return column[: self.size]

    def label_values(self, key: str) -> LabelValues:
        """The vocabulary of a key's column: every value that a node here has is in it."""
        self.label(key)
        return self.vocabulary.labels[key]

    def has_unique_labels(self, key: str) -> bool:
        """Whether no two nodes share a value of a label key."""
        known = self._unique_labels.get(key)
        if known is None or known[0] != self.node_version:
            ids = self.label(key)
            most = np.bincount(ids, minlength=1)[1:].max(initial=0)
            known = self._unique_labels[key] = self.node_version, bool(most <= 1)
        return known[1]

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
        self.nodes[row] = node
        self.node_version += 1
        self.order.put(row, node.metadata.labels)
        self._set_node_columns(row, node)
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
        self.nodes[row] = None
        self.order.drop(row)
        self._clear_node_columns(row)
        self._release(row)
        return row

    # --- pods ---------------------------------------------------------------------------------------------------------

    def add_pod(self, info: PodInfo, name: str | None = None) -> int:
        """Charge a pod to its node (made without a Node object where it is unknown). Returns the row."""
        node_name = info.node_name if name is None else name
        row = self._row_of.get(node_name)
        if row is None:
            row = self._new_row(node_name)
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
                self._scalar(self._requested_scalars, name)[row] += sign * amount

    # --- copies -------------------------------------------------------------------------------------------------------

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
        other._take_arrays(self, np.array(rows, dtype=np.int64))
        return other

    def copy(self) -> NodeTable:
        """The whole table, to be kept while this one goes on changing."""
        other = NodeTable(self.vocabulary, capacity=self._capacity)
        other.size = self.size
        other.node_count = self.node_count
        other.node_version = self.node_version
        other.names_version = self.names_version
        other.order = self.order.copy()
        other.names = list(self.names)
        other.nodes = list(self.nodes)
        other.pods = [dict(pods) for pods in self.pods]
        other.ports = [dict(used) if used is not None else None for used in self.ports]
        other.rows_by_port = self.rows_by_port.copy()
        other._row_of = dict(self._row_of)
        other._free = list(self._free)
        other._take_arrays(self, slice(None))
        return other

    def _take_arrays(self, source: NodeTable, piece: slice | Int64Column) -> None:
        self._arrays = {name: array[piece].copy() for name, array in source._arrays.items()}
        self._exists = source._exists[piece].copy()
        self._unschedulable = source._unschedulable[piece].copy()
        self._taint_set = source._taint_set[piece].copy()
        self._feature_set = source._feature_set[piece].copy()
        self._label_columns = {key: column[piece].copy() for key, column in source._label_columns.items()}
        self._allocatable_scalars = {name: column[piece].copy() for name, column in source._allocatable_scalars.items()}
        self._requested_scalars = {name: column[piece].copy() for name, column in source._requested_scalars.items()}
        self._cut()

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

        for columns in (self._arrays, self._label_columns, self._allocatable_scalars, self._requested_scalars):
            for name in columns:
                columns[name] = longer(columns[name])  # type: ignore[assignment]
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
        self._zeros: Int64Column = np.zeros(size, np.int64)
        self._zeros.flags.writeable = False

    def _scalar(self, columns: dict[str, Int64Column], name: str) -> Int64Column:
        column = columns.get(name)
        if column is None:
            column = columns[name] = np.zeros(self._capacity, np.int64)
        return column

    # --- columns of a Node object -------------------------------------------------------------------------------------

    def _set_node_columns(self, row: int, node: Node) -> None:
        arrays = self._arrays
        offered = allocatable_of(node)
        arrays["allocatable_cpu"][row] = offered.milli_cpu
        arrays["allocatable_memory"][row] = offered.memory
        arrays["allocatable_storage"][row] = offered.ephemeral_storage
        arrays["allocatable_pods"][row] = offered.pods
        for column in self._allocatable_scalars.values():
            column[row] = 0
        for name, amount in offered.scalars.items():
            self._scalar(self._allocatable_scalars, name)[row] = amount
        self._unschedulable[row] = node.spec.unschedulable
        taints = tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        self._taint_set[row] = self.vocabulary.taints.intern(taints) if taints else ABSENT
        features = frozenset(node.status.declared_features)
        self._feature_set[row] = self.vocabulary.features.intern(features) if features else ABSENT
        labels = node.metadata.labels
        for key, ids in self._label_columns.items():
            value = labels.get(key)
            ids[row] = ABSENT if value is None else self.vocabulary.labels[key].intern(value)

    def _clear_node_columns(self, row: int) -> None:
        for name in ("allocatable_cpu", "allocatable_memory", "allocatable_storage", "allocatable_pods"):
            self._arrays[name][row] = 0
        for column in self._allocatable_scalars.values():
            column[row] = 0
        self._unschedulable[row] = False
        self._taint_set[row] = ABSENT
        self._feature_set[row] = ABSENT
        for ids in self._label_columns.values():
            ids[row] = ABSENT
