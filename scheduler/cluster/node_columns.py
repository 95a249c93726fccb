"""The columns of the node table: what nodes offer, what their pods take, labels, taints and features, by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.cluster.amounts import Amounts
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.label_column import LabelColumn
from scheduler.cluster.label_columns import LabelColumns
from scheduler.cluster.longer import longer
from scheduler.cluster.offer import Offer
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.selected_rows import SelectedRows
from scheduler.cluster.vocabulary import TableVocabulary
from scheduler.objects.changes import ALLOCATABLE, FEATURES, LABELS, SPEC
from scheduler.objects.node import Node, NodeSpec
from scheduler.objects.quantity import in_int64
from scheduler.objects.resources import ResourceVector, allocatable_of

Rows = slice | npt.NDArray[np.int64]
Int64Column = npt.NDArray[np.int64]
Block = npt.NDArray[np.int64]
"""One line a resource, one entry a row."""
Int32Column = npt.NDArray[np.int32]
Item = TypeVar("Item", bound=np.generic)

INT64_COLUMNS = (
    "allocatable_cpu",  # milli-CPU
    "allocatable_memory",  # bytes
    "allocatable_storage",  # bytes of ephemeral storage
    "allocatable_pods",
    "requested_cpu",
    "requested_memory",
    "requested_storage",
    "pod_count",
    "non_zero_cpu",  # as requested, with defaults for pods that request nothing
    "non_zero_memory",
)
"""They are the lines of one matrix: what a plugin reads of several of them for some rows is one step then."""

_REQUESTED_FROM, _NON_ZERO_FROM = INT64_COLUMNS.index("requested_cpu"), INT64_COLUMNS.index("non_zero_cpu")
COUNTABLE_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
"""The resources with columns of their own: each node states them."""
USUAL_RESOURCES = ("cpu", "memory")
"""The resources that nearly every pod asks for, and every score of resources is about unless configured."""
_USUAL = slice(0, len(USUAL_RESOURCES))

_PUBLIC_COLUMNS = (*INT64_COLUMNS, "exists", "unschedulable", "taint_set", "feature_set", "row_version")

_NOTHING = ResourceVector()
"""The amounts that a row without a node offers: its columns are 0."""


class _Cut(Generic[Item]):
    """A public column: a view of the rows in use, made when it is first read after their number has changed.

    It is then an attribute of the table itself, which is found before this. A first list adds row after row, and reads
    no column meanwhile.
    """

    __slots__ = ("_name",)

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: NodeColumns, _owner: type | None = None) -> npt.NDArray[Item]:
        name = self._name
        whole: npt.NDArray[Any] | None = table._arrays.get(name)
        column: npt.NDArray[Item] = (getattr(table, f"_{name}") if whole is None else whole)[: table.size]
        table.__dict__[name] = column
        table._is_cut = True
        return column


class NodeColumns:
    """Columns are numpy arrays of length ``size``; ``NodeTable`` alone changes them."""

    allocatable_cpu = _Cut[np.int64]()
    allocatable_memory = _Cut[np.int64]()
    allocatable_storage = _Cut[np.int64]()
    allocatable_pods = _Cut[np.int64]()
    requested_cpu = _Cut[np.int64]()
    requested_memory = _Cut[np.int64]()
    requested_storage = _Cut[np.int64]()
    non_zero_cpu = _Cut[np.int64]()
    non_zero_memory = _Cut[np.int64]()
    pod_count = _Cut[np.int64]()
    exists = _Cut[np.bool_]()
    unschedulable = _Cut[np.bool_]()
    taint_set = _Cut[np.int32]()
    feature_set = _Cut[np.int32]()
    row_version = _Cut[np.int64]()

    _is_cut = True
    """Whether any public column may have been read since their length was another."""

    def __init__(self, vocabulary: TableVocabulary | None, capacity: int) -> None:
        self._begin(vocabulary or TableVocabulary(), capacity)
        self._put_matrix(np.zeros((len(INT64_COLUMNS), capacity), np.int64))
        self._exists: npt.NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._unschedulable: npt.NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        self._taint_set: Int32Column = np.zeros(capacity, np.int32)
        self._feature_set: Int32Column = np.zeros(capacity, np.int32)
        self._row_version: Int64Column = np.zeros(capacity, np.int64)
        self._labels = LabelColumns()
        self._selected = SelectedRows()
        self._allocatable = Amounts()
        self._requested = Amounts()

    def _begin(self, vocabulary: TableVocabulary, capacity: int) -> None:
        """Set all but the columns."""
        self.vocabulary = vocabulary
        self.size = 0
        """Rows in use, those without a node included: columns are cut to this length."""
        self.node_version = 0
        """Grows when a node comes, goes, or changes in what a decision reads of it; heartbeats do not count."""
        self.labels_version = 0
        """Grows when a node comes, goes, or changes in its labels."""
        self.allocatable_version = 0
        """Grows when a node comes, goes, or changes in what it offers."""
        self._capacity = capacity
        self._offers: dict[str, Offer] = {}
        self._usual_offer: Offer | None = None
        self._always: dict[str, tuple[Int64Column, Int64Column]] = {}
        """The answer of ``amounts`` for USUAL_RESOURCES."""

    def _put_matrix(self, matrix: Block) -> None:
        """``matrix``: one line each of INT64_COLUMNS, perhaps without the last ones."""
        self._matrix = matrix
        self._arrays: dict[str, Int64Column] = dict(zip(INT64_COLUMNS, matrix, strict=False))

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

    def amounts(self, resource: str) -> tuple[Int64Column, Int64Column]:
        """What nodes offer of a resource (``allocatable``), and what their pods take of it (``requested``)."""
        known = self._always.get(resource)
        if known is None:
            known = self.allocatable(resource), self.requested(resource)
            if resource in USUAL_RESOURCES:
                self._always[resource] = known
        return known

    def countable_at(self, rows: Rows) -> tuple[Block, Block]:
        """What the nodes of these rows offer, and what their pods take: a line each of COUNTABLE_RESOURCES. Don't
        mutate them."""
        offered, requested = slice(0, _REQUESTED_FROM), slice(_REQUESTED_FROM, _NON_ZERO_FROM)
        return self._lines(offered, rows), self._lines(requested, rows)

    def usual_at(self, rows: Rows, *, with_defaults: bool) -> tuple[Block, Block]:
        """The same of USUAL_RESOURCES; ``with_defaults``: pods that request nothing of one take a default."""
        first = _NON_ZERO_FROM if with_defaults else _REQUESTED_FROM
        return self._lines(_USUAL, rows), self._lines(slice(first, first + len(USUAL_RESOURCES)), rows)

    def _lines(self, lines: slice, rows: Rows) -> Block:
        # Lines are not cut to the rows in use before: `take` would copy them first.
        return self._matrix[lines, rows] if isinstance(rows, slice) else self._matrix[lines].take(rows, axis=1)

    def is_nowhere(self, resource: str) -> bool:
        """Whether no node offers any of a resource, and no pod takes any."""
        if resource in COUNTABLE_RESOURCES:
            return False
        return resource not in self._allocatable and resource not in self._requested

    def scalars_somewhere(self) -> frozenset[str]:
        """The resources beside cpu, memory, ephemeral-storage and pods that are not ``is_nowhere``, all at once."""
        return frozenset(self._allocatable.names).union(self._requested.names)

    def offer(self, resource: str, allocatable: Int64Column) -> Offer:
        """What is computed from the allocatable amounts of a resource, kept until a node offers something else."""
        offer = self._offers.get(resource)
        if offer is None or offer.version != self.allocatable_version or len(offer.divisor) != self.size:
            offer = self._offers[resource] = Offer(allocatable, self.allocatable_version)
        return offer

    def usual_offer(self) -> Offer:
        """The same for the lines of USUAL_RESOURCES."""
        offer = self._usual_offer
        if offer is None or offer.version != self.allocatable_version or offer.divisor.shape[1] != self.size:
            offer = self._usual_offer = Offer(self._matrix[_USUAL, : self.size], self.allocatable_version)
        return offer

    def label(self, key: str) -> Int32Column:
        """Ids of the nodes' values of a label key (``label_values(key)``), ABSENT where a node lacks it. They hold
        until the label of a node changes (``labels_version``)."""
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

    def _set_node_columns(self, row: int, old: Node | None, node: Node, difference: int) -> None:
        """Fill the row's columns. ``old``: the node that they are of; only the parts in ``difference`` are written."""
        if difference & ALLOCATABLE:
            self._put_allocatable(row, old, node)
        if difference & SPEC:
            self._put_spec(row, old, node.spec)
        if difference & FEATURES and (old is not None or node.status.declared_features):
            features = frozenset(node.status.declared_features)
            self._feature_set[row] = self.vocabulary.features.intern(features) if features else ABSENT
        if difference & LABELS:
            self._labels.put(row, node.metadata.labels)
            self._selected.put(row, node.metadata.labels)

    def _put_spec(self, row: int, old: Node | None, spec: NodeSpec) -> None:
        """Write taints and ``unschedulable``; a row without a node has neither."""
        if old is not None or spec.unschedulable:
            self._unschedulable[row] = spec.unschedulable
        if old is not None or spec.taints:
            taints = tuple([(taint.key, taint.value, taint.effect) for taint in spec.taints])
            self._taint_set[row] = self.vocabulary.taints.intern(taints) if taints else ABSENT

    def _put_allocatable(self, row: int, old: Node | None, node: Node) -> None:
        """Write the amounts that have changed: each column is a place in memory of its own."""
        arrays = self._arrays
        offered = allocatable_of(node)
        before = _NOTHING if old is None else allocatable_of(old)
        if offered.milli_cpu != before.milli_cpu:
            arrays["allocatable_cpu"][row] = offered.milli_cpu
        if offered.memory != before.memory:
            arrays["allocatable_memory"][row] = offered.memory
        if offered.ephemeral_storage != before.ephemeral_storage:
            arrays["allocatable_storage"][row] = offered.ephemeral_storage
        if offered.pods != before.pods:
            arrays["allocatable_pods"][row] = offered.pods
        if offered.scalars != before.scalars:
            self._put_scalars(row, before, offered)

    def _clear_node_columns(self, row: int, old: Node | None) -> None:
        if old is not None:
            self._put_scalars(row, allocatable_of(old), _NOTHING)
        for name in ("allocatable_cpu", "allocatable_memory", "allocatable_storage", "allocatable_pods"):
            self._arrays[name][row] = 0
        self._unschedulable[row] = False
        self._taint_set[row] = ABSENT
        self._feature_set[row] = ABSENT
        self._labels.drop(row)
        self._selected.put(row, None)

    def _put_scalars(self, row: int, before: ResourceVector, offered: ResourceVector) -> None:
        for name in before.scalars:
            if name not in offered.scalars:
                self._allocatable.put(name, row, 0)
        for name, amount in offered.scalars.items():
            self._allocatable.put(name, row, amount)

    def _charge(self, row: int, info: PodInfo, sign: int) -> None:
        arrays = self._arrays
        charged = info.charged
        non_zero_cpu, non_zero_memory = info.non_zero
        _add(arrays["requested_cpu"], row, sign * charged.milli_cpu)
        _add(arrays["requested_memory"], row, sign * charged.memory)
        if charged.ephemeral_storage:
            _add(arrays["requested_storage"], row, sign * charged.ephemeral_storage)
        _add(arrays["non_zero_cpu"], row, sign * non_zero_cpu)
        _add(arrays["non_zero_memory"], row, sign * non_zero_memory)
        arrays["pod_count"][row] += sign
        if charged.scalars:
            for name, amount in charged.scalars.items():
                self._requested.add(name, row, sign * amount)

    def _charge_all(self, rows: Int64Column, infos: Sequence[PodInfo]) -> None:
        """Charge a pod, as ``_charge`` does, for each entry of ``rows``, in which a row may be several times."""
        arrays = self._arrays
        charged = [info.charged for info in infos]
        non_zero = [info.non_zero for info in infos]
        np.add.at(arrays["requested_cpu"], rows, [vector.milli_cpu for vector in charged])
        np.add.at(arrays["requested_memory"], rows, [vector.memory for vector in charged])
        np.add.at(arrays["requested_storage"], rows, [vector.ephemeral_storage for vector in charged])
        np.add.at(arrays["non_zero_cpu"], rows, [cpu for cpu, _ in non_zero])
        np.add.at(arrays["non_zero_memory"], rows, [memory for _, memory in non_zero])
        np.add.at(arrays["pod_count"], rows, 1)
        for row, vector in zip(rows.tolist(), charged, strict=True):
            for name, amount in vector.scalars.items():
                self._requested.add(name, row, amount)

    def _copy_columns(self, source: NodeColumns) -> None:
        self._put_matrix(source._matrix.copy())
        self._exists = source._exists.copy()
        self._unschedulable = source._unschedulable.copy()
        self._taint_set = source._taint_set.copy()
        self._feature_set = source._feature_set.copy()
        self._row_version = source._row_version.copy()

    def _grow(self) -> None:
        self._capacity *= 2
        more = self._capacity
        matrix = np.zeros((len(self._matrix), more), np.int64)
        matrix[:, : self._matrix.shape[1]] = self._matrix
        self._put_matrix(matrix)
        for attribute in ("_exists", "_unschedulable", "_taint_set", "_feature_set", "_row_version"):
            setattr(self, attribute, longer(getattr(self, attribute), more))

    def _uncut(self) -> None:
        """Forget the public columns, since the arrays, or how much of them is in use, have changed."""
        own = self.__dict__
        for name in _PUBLIC_COLUMNS:
            own.pop(name, None)
        self._always = {}
        self._is_cut = False


def _add(column: Int64Column, row: int, amount: int) -> None:
    """numpy warns where one number of its own begins again at the other end."""
    column[row] = in_int64(column.item(row) + amount)
