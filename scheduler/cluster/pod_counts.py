"""Pods that match an interned (namespaces, selector), counted per node and kept up to date.

What spread constraints and inter-pod affinity ask is always "how many such pods are on each node". Pods with equal
namespace and labels form a *group*; which selectors match it is worked out once a group. A pod that comes or goes then
touches the counters of its group and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

import numpy as np
import numpy.typing as npt

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.selector_index import ALL_NAMESPACES, Namespaces, SelectorIndex
from scheduler.cluster.table import NodeTable
from scheduler.errors import InvariantViolation
from scheduler.objects.requirements import Operator
from scheduler.objects.selectors import Selector

Counts = npt.NDArray[np.int64]
Query = tuple[Namespaces, Selector]
_Labels = frozenset[tuple[str, str]]

__all__ = ["ALL_NAMESPACES", "Counts", "Namespaces", "PodCounts"]


class _Group:
    """The pods of one namespace that have the same labels."""

    __slots__ = ("counters", "epoch", "labels", "namespace", "rows", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], epoch: object) -> None:
        self.namespace = namespace
        self.labels = labels
        self.epoch = epoch
        self.rows: dict[int, int] = {}
        """Pods on each row, terminating ones included."""
        self.terminating: dict[int, int] = {}
        self.counters: tuple[int, ...] = ()
        """Ids of the counters that these labels match."""

    def copied(self, epoch: object) -> _Group:
        other = _Group(self.namespace, self.labels, epoch)
        other.rows = dict(self.rows)
        other.terminating = dict(self.terminating)
        other.counters = self.counters
        return other


class _Counter:
    """The answers for one query. Each is made when it is first asked for: most queries need only one of them."""

    __slots__ = ("all", "epoch", "live", "query", "version")

    def __init__(self, query: Query, version: int, epoch: object) -> None:
        self.query = query
        self.version = version
        self.epoch = epoch
        self.all: RowCounts | None = None
        self.live: RowCounts | None = None

    def copied(self, epoch: object) -> _Counter:
        other = _Counter(self.query, self.version, epoch)
        other.all = None if self.all is None else self.all.copy()
        other.live = None if self.live is None else self.live.copy()
        return other


class PodCounts:
    """``limit``: how many queries are kept; the one that was not asked for longest goes first.

    An id is valid until its query is evicted, and never used again: intern again to be sure. Copies share what neither
    side has changed since.
    """

    def __init__(self, table: NodeTable, limit: int = 1024) -> None:
        self._table = table
        self._limit = limit
        self._frozen_size: int | None = None
        self._groups: dict[str, dict[_Labels, _Group]] = {}
        self._labelled: dict[tuple[str, str, str], dict[_Labels, None]] | None = {}
        """(namespace, label key, value) → the groups with that label; None in a copy, which looks through all."""
        self._ids: dict[Query, int] = {}
        self._counters: dict[int, _Counter] = {}
        self._index = SelectorIndex()
        self._new_ids = count(1)
        self._clock = count(1)
        self.changes = 0
        """Grows whenever the version of any query is another one; once a query was evicted, with every pod."""
        self.evictions = 0
        """How many ids mean nothing any more."""
        self._epoch = object()
        """The mark of what may be changed in place: what bears another mark is shared with a copy."""

    # --- asking -------------------------------------------------------------------------------------------------------

    def intern(self, namespaces: Namespaces, selector: Selector) -> int:
        """The id of the query. Asking for it keeps it from being evicted."""
        query = (namespaces, selector)
        found = self._ids.pop(query, None)
        if found is None:
            found = self._new_counter(query)
        self._ids[query] = found
        return found

    def counts(self, query_id: int) -> Counts:
        """All matching pods on each row, rows without a node included: int64, read-only, length ``table.size``.

        It may go on changing with the cluster: use it at once. Raises KeyError for an evicted id.
        """
        return self.tally(query_id).array(self._size)

    def live_counts(self, query_id: int) -> Counts:
        """The same without pods that are being deleted."""
        return self.live_tally(query_id).array(self._size)

    def tally(self, query_id: int) -> RowCounts:
        """The same as ``counts`` for who adds up by domain. Read it only."""
        counter = self._counters[query_id]
        if counter.all is None:
            counter.all = self._recount(query_id, live_only=False)
        return counter.all

    def live_tally(self, query_id: int) -> RowCounts:
        """The same without pods that are being deleted."""
        counter = self._counters[query_id]
        if counter.live is None:
            counter.live = self._recount(query_id, live_only=True)
        return counter.live

    def version(self, query_id: int) -> int:
        """Equal versions promise equal counts. Of an evicted id it is never the same twice."""
        counter = self._counters.get(query_id)
        return next(self._clock) if counter is None else counter.version

    def __len__(self) -> int:
        """How many queries are kept."""
        return len(self._counters)

    # --- the tally ----------------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        labels = frozenset(info.labels.items())
        groups = self._groups.get(info.namespace)
        if groups is None:
            groups = self._groups[info.namespace] = {}
        group = groups.get(labels)
        if group is None:
            group = groups[labels] = self._new_group(info)
            if self._labelled is not None:
                for key, value in labels:
                    self._labelled.setdefault((info.namespace, key, value), {})[labels] = None
        elif group.epoch is not self._epoch:
            group = groups[labels] = group.copied(self._epoch)
        group.rows[row] = group.rows.get(row, 0) + 1
        if info.is_terminating:
            group.terminating[row] = group.terminating.get(row, 0) + 1
        self._change(group, row, 1, info.is_terminating)

    def remove(self, info: PodInfo, row: int) -> None:
        """Raises InvariantViolation if no such pod was added on the row."""
        labels = frozenset(info.labels.items())
        groups = self._groups.get(info.namespace, {})
        group = groups.get(labels)
        if group is None or row not in group.rows:
            raise InvariantViolation(f"pod {info.key} is taken from row {row}, where no pod of its labels is counted")
        if group.epoch is not self._epoch:
            group = groups[labels] = group.copied(self._epoch)
        _decrease(group.rows, row)
        if info.is_terminating:
            _decrease(group.terminating, row)
        self._change(group, row, -1, info.is_terminating)
        if not group.rows:
            del groups[labels]
            self._unlabel(info.namespace, labels)
            if not groups:
                del self._groups[info.namespace]

    def replace(self, known: PodInfo, info: PodInfo, row: int) -> None:
        """Another version of a pod on its row. Most changes are of the status and leave the versions alone."""
        if known.labels == info.labels and known.is_terminating == info.is_terminating:
            return
        self.remove(known, row)
        self.add(info, row)

    def copy(self) -> PodCounts:
        """To be kept, and asked, while this one goes on changing."""
        other = PodCounts(self._table, self._limit)
        other._frozen_size = self._size
        other._groups = {namespace: dict(groups) for namespace, groups in self._groups.items()}
        other._labelled = None
        other._ids = dict(self._ids)
        other._counters = dict(self._counters)
        other._index = self._index.copy()
        # Shared, so that an id or a version never means one thing here and another there.
        other._new_ids = self._new_ids
        other._clock = self._clock
        other.changes = self.changes
        other.evictions = self.evictions
        # All that exists is shared from now on: neither side may go on with its mark.
        self._epoch = object()
        return other

    def check(self) -> None:
        """Raise InvariantViolation unless everything equals a recount of the pods in the table."""
        recount = PodCounts(self._table, self._limit)
        for row, pods in enumerate(self._table.pods):
            for info in pods.values():
                recount.add(info, row)
        found = {(group.namespace, labels): group for labels, group in self._all_groups()}
        expected = {(group.namespace, labels): group for labels, group in recount._all_groups()}
        if found.keys() != expected.keys():
            raise InvariantViolation("the groups of pods differ from a recount")
        for key, group in found.items():
            if group.rows != expected[key].rows or group.terminating != expected[key].terminating:
                raise InvariantViolation(f"pods with the labels {sorted(key[1])} in {key[0]} differ from a recount")
        for query, query_id in self._ids.items():
            counter = self._counters[query_id]
            other = recount.intern(*query)
            if counter.all is not None and not np.array_equal(self.counts(query_id), recount.counts(other)):
                raise InvariantViolation(f"counts of {query[1]} in {query[0]} differ from a recount")
            if counter.live is not None and not np.array_equal(self.live_counts(query_id), recount.live_counts(other)):
                raise InvariantViolation(f"live counts of {query[1]} in {query[0]} differ from a recount")

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _size(self) -> int:
        return self._table.size if self._frozen_size is None else self._frozen_size

    def _change(self, group: _Group, row: int, sign: int, terminating: bool) -> None:
        if group.counters or self.evictions:
            self.changes += 1
        for query_id in group.counters:
            counter = self._writable(query_id)
            counter.version = next(self._clock)
            if counter.all is not None:
                counter.all.add(row, sign)
            if counter.live is not None and not terminating:
                counter.live.add(row, sign)

    def _writable(self, query_id: int) -> _Counter:
        counter = self._counters[query_id]
        if counter.epoch is not self._epoch:
            counter = self._counters[query_id] = counter.copied(self._epoch)
        return counter

    def _new_group(self, info: PodInfo) -> _Group:
        group = _Group(info.namespace, info.labels, self._epoch)
        counters = self._counters
        group.counters = tuple(
            [
                query_id
                for query_id in self._index.candidates(info.namespace, info.labels)
                if counters[query_id].query[1].matches(info.labels)
            ]
        )
        return group

    def _new_counter(self, query: Query) -> int:
        while len(self._counters) >= self._limit:
            self._evict(next(iter(self._ids)))
        query_id = next(self._new_ids)
        self._counters[query_id] = _Counter(query, next(self._clock), self._epoch)
        self._index.put(query_id, *query)
        for groups, labels in self._matching_groups(query):
            group = self._own(groups, labels)
            group.counters = (*group.counters, query_id)
        return query_id

    def _evict(self, query: Query) -> None:
        query_id = self._ids.pop(query)
        self.evictions += 1
        self.changes += 1
        self._index.drop(query_id)
        for groups, labels in self._matching_groups(query):
            group = self._own(groups, labels)
            group.counters = tuple([other for other in group.counters if other != query_id])
        del self._counters[query_id]

    def _own(self, groups: dict[_Labels, _Group], labels: _Labels) -> _Group:
        group = groups[labels]
        if group.epoch is not self._epoch:
            group = groups[labels] = group.copied(self._epoch)
        return group

    def _matching_groups(self, query: Query) -> Iterator[tuple[dict[_Labels, _Group], _Labels]]:
        namespaces, selector = query
        if selector.selects_nothing:
            return
        areas = list(self._groups) if namespaces is None else sorted(namespaces)
        for namespace in areas:
            groups = self._groups.get(namespace, {})
            for labels in [
                labels
                for labels in self._candidates(namespace, groups, selector)
                if selector.matches(groups[labels].labels)
            ]:
                yield groups, labels

    def _candidates(self, namespace: str, groups: dict[_Labels, _Group], selector: Selector) -> Iterable[_Labels]:
        """Groups worth comparing with the selector, each once: those with the rarest label that it requires."""
        best: Iterable[_Labels] = groups
        least = len(groups)
        labelled = self._labelled
        for requirement in selector.requirements if labelled is not None else ():
            if requirement.operator is Operator.IN:
                found = [(labelled or {}).get((namespace, requirement.key, value), {}) for value in requirement.values]
                size = sum(map(len, found))
                if size < least:
                    best, least = [labels for part in found for labels in part], size
        return best

    def _unlabel(self, namespace: str, labels: _Labels) -> None:
        if self._labelled is None:
            return
        for key, value in labels:
            place = self._labelled[namespace, key, value]
            del place[labels]
            if not place:
                del self._labelled[namespace, key, value]

    def _recount(self, query_id: int, *, live_only: bool) -> RowCounts:
        total = RowCounts()
        for groups, labels in self._matching_groups(self._counters[query_id].query):
            group = groups[labels]
            for row, pods in group.rows.items():
                total.add(row, pods)
            if live_only:
                for row, pods in group.terminating.items():
                    total.add(row, -pods)
        return total

    def _all_groups(self) -> Iterator[tuple[_Labels, _Group]]:
        for groups in self._groups.values():
            yield from groups.items()


def _decrease(counts: dict[int, int], row: int) -> None:
    left = counts[row] - 1
    if left:
        counts[row] = left
    else:
        del counts[row]
