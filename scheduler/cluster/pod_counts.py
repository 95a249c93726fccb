"""Pods that match an interned (namespaces, selector), counted per node and kept up to date.

What spread constraints and inter-pod affinity ask is always "how many such pods are on each node". Pods with equal
namespace and labels form a *group*; which selectors match it is worked out once a group. A pod that comes or goes then
touches the counters of its group and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.cluster.change_log import ChangeLog, RowChange
from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.label_groups import ANY_LABEL, MANY_LABELS, GroupKey, LabelGroup, Labels, filed_under
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.selector_index import ALL_NAMESPACES, Namespaces, SelectorIndex
from scheduler.cluster.table import NodeTable
from scheduler.errors import InvariantViolation
from scheduler.objects.memo import MAX_PARTS
from scheduler.objects.requirements import Operator
from scheduler.objects.selectors import Selector
from scheduler.objects.steps import Pace, Steps

MAX_BYTES: Final = 128 * 2**20
"""Bytes of counts kept as arrays: those of 16,000 selectors at 5,000 nodes, 1,000 at 100,000."""

Counts = npt.NDArray[np.int64]
Query = tuple[Namespaces, Selector]
NO_QUERY: Final = 0
"""An id of no query: its version is never the same twice."""

__all__ = ["ALL_NAMESPACES", "Counts", "Namespaces", "PodCounts"]


class _Counter:
    """The answers for one query. Each is made when it is first asked for: most queries need only one of them."""

    __slots__ = ("all", "live", "log", "query", "version")

    def __init__(self, query: Query, version: int) -> None:
        self.query = query
        self.version = version
        self.log = ChangeLog(version)
        self.all: RowCounts | None = None
        self.live: RowCounts | None = None

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in (self.all, self.live) if one is not None)

    def copied(self) -> _Counter:
        other = _Counter(self.query, self.version)
        other.log = self.log.copy()
        other.all = None if self.all is None else self.all.copy()
        other.live = None if self.live is None else self.live.copy()
        return other


class PodCounts:
    """``limit``: how many queries are kept, and ``max_bytes`` how many bytes of arrays; the one that was not asked for
    longest goes first. Bytes are counted after a number of new queries, each time an eighth of those kept.

    An id is valid until its query is evicted, and never used again: intern again to be sure. Forks share what neither
    side has changed since; ids and versions of one never mean anything else in another.
    """

    def __init__(self, table: NodeTable, limit: int = 1024, max_bytes: int = MAX_BYTES) -> None:
        self._table = table
        self._limit = limit
        self._max_bytes = max_bytes
        self._until_weighed = 1
        """New queries until bytes are counted again."""
        self._groups: ForkableDict[GroupKey, LabelGroup] = ForkableDict()
        self._labelled: dict[tuple[str, str, str], dict[Labels, None]] = {}
        """(namespace, label key, value) → the groups with that label; with ANY_LABEL, all of the namespace, with
        MANY_LABELS those that are filed under no label. In a fork it stays empty: the fork asks ``_below``, and looks
        at groups that differ."""
        self._below: PodCounts | None = None
        self._ids: dict[Query, int] = {}
        self._counters: ForkableDict[int, _Counter] = ForkableDict()
        self._index = SelectorIndex()
        self._new_ids = count(1)
        self._clock = count(1)
        self.changes = 0
        """Grows with every change of any query's version; once a query was evicted or never kept, with every change of
        a pod."""
        self.evictions = 0
        """How many ids are no longer valid."""
        self._is_asked_directly = False
        """Whether any pod group may have been counted for a query that has no counter."""
        self._made = 0
        """How many queries got a counter here; ids do not say, as forks share them."""

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
        return self.tally(query_id).array(self._table.size)

    def live_counts(self, query_id: int) -> Counts:
        """The same without pods that are being deleted."""
        return self.live_tally(query_id).array(self._table.size)

    def tally(self, query_id: int) -> RowCounts:
        """The same as ``counts``, for adding up by domain. Read it only."""
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

    def count_in_steps(
        self, namespaces: Namespaces, selector: Selector, pace: Pace, *, live_only: bool = False
    ) -> Steps[RowCounts]:
        """The matching pods on each row, counted without keeping a counter, so that no other query is evicted. Pauses
        between groups of pods. The result is not to be changed, and is valid until the next change of a pod.
        ``live_only``: without those that are being deleted."""
        known = self._ids.get((namespaces, selector))
        if known is not None:
            return self.live_tally(known) if live_only else self.tally(known)
        self._is_asked_directly = True
        total = RowCounts()
        if not selector.selects_nothing:
            for key in self._candidates(namespaces, selector):
                pace.left -= 1
                if pace.is_over:
                    yield from pace.pause()
                group = self._groups.get(key)
                if group is not None and selector.matches(group.labels):
                    group.add_to(total, live_only=live_only)
        return total

    def version(self, query_id: int) -> int:
        """Equal versions promise equal counts. Of an evicted id it is never the same twice."""
        counter = self._counters.get(query_id)
        return next(self._clock) if counter is None else counter.version

    def changes_since(self, query_id: int, version: int) -> list[RowChange] | None:
        """The pods that came and went since the query had this version, in order, with a weight of 0 for those that
        are being deleted; None where that is not known any more. Asking keeps the query from being evicted."""
        counter = self._counters.get(query_id)
        if counter is None:
            return None
        self._ids[counter.query] = self._ids.pop(counter.query)
        return counter.log.since(version)

    def __len__(self) -> int:
        """How many queries are kept."""
        return len(self._counters)

    @property
    def asked(self) -> tuple[int, bool]:
        """Changes with each new query. A fork that was made before it does not count for it, so that ``changes`` does
        not grow there with the pods that match."""
        return self._made, self._is_asked_directly

    # --- the tally ----------------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        """Count a pod that comes to a row."""
        key = info.namespace, frozenset(info.labels.items())
        known = self._groups.get(key)
        if known is not None:
            group = self._groups.writable(known.key, LabelGroup.copied)
        else:
            group = self._groups[key] = self._new_group(key, info)
            self._file(group)
        group.rows[row] = group.rows.get(row, 0) + 1
        if info.is_terminating:
            group.terminating[row] = group.terminating.get(row, 0) + 1
        self._change(group, row, 1, info.is_terminating)

    def remove(self, info: PodInfo, row: int) -> None:
        """Count a pod no longer that leaves its row. Raises InvariantViolation if no such pod was added on the row."""
        known = self._groups.get((info.namespace, frozenset(info.labels.items())))
        if known is None or row not in known.rows:
            raise InvariantViolation(f"pod {info.key} is taken from row {row}, where no pod of its labels is counted")
        group = self._groups.writable(known.key, LabelGroup.copied)
        _decrease(group.rows, row)
        if info.is_terminating:
            _decrease(group.terminating, row)
        self._change(group, row, -1, info.is_terminating)
        if not group.rows:
            del self._groups[group.key]
            self._unfile(group)

    def replace(self, known: PodInfo, info: PodInfo, row: int) -> None:
        """Another version of a pod on its row. Most changes are of the status and leave the versions alone."""
        if known.labels == info.labels and known.is_terminating == info.is_terminating:
            return
        self.remove(known, row)
        self.add(info, row)

    def fork(self, table: NodeTable) -> PodCounts:
        """The same over a fork of the table; neither side sees what the other does from now on."""
        other = PodCounts(table, self._limit, self._max_bytes)
        other._groups = self._groups.fork()
        other._below = self
        other._ids = dict(self._ids)
        other._counters = self._counters.fork()
        other._index = self._index.fork()
        # Shared, so that an id or a version means the same in the fork and in its parent.
        other._new_ids = self._new_ids
        other._clock = self._clock
        # So that a fork with few queries does not have to count the bytes of all of them.
        other._until_weighed = 1 + len(self._ids) // 8
        other.changes = self.changes
        other.evictions = self.evictions
        other._is_asked_directly = self._is_asked_directly
        return other

    def check(self) -> None:
        """Raise InvariantViolation unless everything equals a recount of the pods in the table."""
        recount = PodCounts(self._table, self._limit)
        for row, pods in enumerate(self._table.pods):
            for info in pods.values():
                recount.add(info, row)
        found, expected = dict(self._groups.items()), dict(recount._groups.items())
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

    def _change(self, group: LabelGroup, row: int, sign: int, terminating: bool) -> None:
        if group.counters or self.evictions or self._is_asked_directly:
            self.changes += 1
        for query_id in group.counters:
            counter = self._counters.writable(query_id, _Counter.copied)
            counter.version = next(self._clock)
            counter.log.append(counter.version, row, sign, 0 if terminating else sign)
            if counter.all is not None:
                counter.all.add(row, sign)
            if counter.live is not None and not terminating:
                counter.live.add(row, sign)

    def _new_group(self, key: GroupKey, info: PodInfo) -> LabelGroup:
        group = LabelGroup(key, info.labels)
        counters = self._counters
        candidates = self._index.candidates(info.namespace, info.labels)
        group.counters = tuple([one for one in candidates if _is_meant(info, *counters[one].query)])
        return group

    def _new_counter(self, query: Query) -> int:
        while len(self._counters) >= self._limit:
            self._evict(next(iter(self._ids)))
        self._until_weighed -= 1
        if not self._until_weighed:
            self._shed()
        query_id = next(self._new_ids)
        self._made += 1
        self._counters[query_id] = _Counter(query, next(self._clock))
        self._index.put(query_id, *query)
        for key in self._matching_groups(query):
            group = self._groups.writable(key, LabelGroup.copied)
            group.counters = (*group.counters, query_id)
        return query_id

    def _evict(self, query: Query) -> None:
        query_id = self._ids.pop(query)
        self.evictions += 1
        self.changes += 1
        self._index.drop(query_id)
        for key in self._matching_groups(query):
            group = self._groups.writable(key, LabelGroup.copied)
            group.counters = tuple([other for other in group.counters if other != query_id])
        del self._counters[query_id]

    def _shed(self) -> None:
        sizes = [(query, self._counters[query_id].nbytes) for query, query_id in self._ids.items()]
        excess = sum(size for _, size in sizes) - self._max_bytes
        for query, size in sizes:
            if excess <= 0:
                break
            if size:
                self._evict(query)
                excess -= size
        self._until_weighed = 1 + len(self._ids) // 8

    def _matching_groups(self, query: Query) -> Iterator[GroupKey]:
        namespaces, selector = query
        if selector.selects_nothing:
            return
        for key in self._candidates(namespaces, selector):
            group = self._groups.get(key)
            if group is not None and selector.matches(group.labels):
                yield key

    def _candidates(self, namespaces: Namespaces, selector: Selector) -> list[GroupKey]:
        """Groups worth comparing with the selector, each once, some perhaps gone: all that match are among them."""
        if self._below is not None:
            touched = [key for key in self._groups.touched() if namespaces is None or key[0] in namespaces]
            known = set(touched)
            return [key for key in self._below._candidates(namespaces, selector) if key not in known] + touched
        if namespaces is None:
            return list(self._groups)
        return [
            (namespace, labels)
            for namespace in self._inhabited(namespaces)
            for labels in self._candidates_in(namespace, selector)
        ]

    def _inhabited(self, namespaces: frozenset[str]) -> list[str]:
        """Those of the namespaces that have pods, in order."""
        return sorted([namespace for namespace in namespaces if (namespace, *ANY_LABEL) in self._labelled])

    def _candidates_in(self, namespace: str, selector: Selector) -> Iterable[Labels]:
        """Those with the rarest label that the selector requires."""
        labelled = self._labelled
        everything = labelled.get((namespace, *ANY_LABEL), {})
        best: Iterable[Labels] = everything
        least = len(everything)
        for requirement in selector.requirements[:MAX_PARTS]:
            # To look up more values than there are groups would take longer than to compare with each.
            if requirement.operator is Operator.IN and len(requirement.values) <= max(least, MAX_PARTS):
                found = [labelled.get((namespace, requirement.key, value), {}) for value in requirement.values]
                size = sum(map(len, found))
                if size < least:
                    best, least = [labels for part in found for labels in part], size
        many = labelled.get((namespace, *MANY_LABELS)) if least < len(everything) else None
        return [*best, *many] if many else best

    def _file(self, group: LabelGroup) -> None:
        if self._below is None:
            namespace, labels = group.key
            for key, value in filed_under(group):
                self._labelled.setdefault((namespace, key, value), {})[labels] = None

    def _unfile(self, group: LabelGroup) -> None:
        if self._below is None:
            namespace, labels = group.key
            for key, value in filed_under(group):
                place = self._labelled[namespace, key, value]
                if len(place) == 1:
                    del self._labelled[namespace, key, value]
                else:
                    del place[labels]

    def _recount(self, query_id: int, *, live_only: bool) -> RowCounts:
        total = RowCounts()
        for key in self._matching_groups(self._counters[query_id].query):
            self._groups[key].add_to(total, live_only=live_only)
        return total


def _is_meant(info: PodInfo, namespaces: Namespaces, selector: Selector) -> bool:
    return (namespaces is None or info.namespace in namespaces) and selector.matches(info.labels)


def _decrease(counts: dict[int, int], row: int) -> None:
    left = counts[row] - 1
    if left:
        counts[row] = left
    else:
        del counts[row]
