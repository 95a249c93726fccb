"""The pods of each row in the order of importance, as arrays: kept from one attempt to the next.

Sorting every pod of a cluster for each preemptor would cost more than all the rest. A row is looked at again when the
table gives it another version, and then only those of its pods are placed again that have come or changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.cluster.cache import looks_the_same
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable, Versions
from scheduler.objects.node import Node
from scheduler.objects.ports import HostPort
from scheduler.preemption.importance import LATER_THAN_ANY, importance, most_important_first, start_time
from scheduler.preemption.kept_answers import KeptAnswers
from scheduler.preemption.kept_numbers import Facet, KeptFacet, KeptNumbers, Lines, Measure
from scheduler.preemption.pod_profiles import PodProfiles

PODS_A_STEP = 500
"""Pods that are new to the columns between two pauses of a search: 1,000 take 2 to 4 ms."""
NEVER_A_VICTIM = np.iinfo(np.int64).max
"""The priority of places without a pod."""

_MAX_PODS = 512
"""Pods of a row beyond which it is left to the plain dry run: the arrays are bounded."""
_MAX_SCALARS = 16
"""Resources that get an array, the first ones. A row whose pods request another one is left to the plain dry run."""
_MAX_CELLS = 1 << 24
_MAX_NUMBERS = 16
"""Kinds of numbers that are kept: one a driver, mostly."""
_FEWEST_PROFILES_TO_DROP = 4096
_ABSENT = -1
_CHARGES = ("requested_cpu", "requested_memory", "requested_storage")

Matrix = npt.NDArray[np.int64]


class PodColumns:
    """Arrays of one line a row and one place a pod, the most important pod of a row first."""

    def __init__(self) -> None:
        self._new_version = count(1).__next__
        self.clear()

    def clear(self) -> None:
        """Empty the columns; rows are filled again when they are asked for."""
        self.profiles = PodProfiles()
        self.infos: list[list[PodInfo]] = []
        """By row, most important first; empty for a row with more than ``_MAX_PODS``."""
        self.priority: Matrix = np.full((0, 16), NEVER_A_VICTIM, np.int64)
        self.profile: npt.NDArray[np.int32] = np.zeros((0, 16), np.int32)
        self.charges: dict[str, Matrix] = {name: np.zeros((0, 16), np.int64) for name in _CHARGES}
        """Column of the node table → what each pod adds to it."""
        self.start: Matrix = np.full((0, 16), LATER_THAN_ANY, np.int64)
        """When each pod started, nanoseconds; LATER_THAN_ANY where that is not known."""
        self.scalars: dict[str, Matrix] = {}
        """Resource → what each pod adds to what is requested of it."""
        self.is_kept: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Whether the arrays describe the row; else it has too many pods or resources."""
        self.last_start: Matrix = np.zeros(0, np.int64)
        """The latest start among the pods of a row that also has pods without one, else -1; nanoseconds. From then on
        the order holds, since those count as started now."""
        self.versions = np.zeros(0, np.int64)
        """By row; one that no row ever had, when its pods or its Node have changed since the last refresh."""
        self._pods_versions = np.zeros(0, np.int64)
        """As ``versions``, for the pods alone."""
        self.amounts_versions = np.zeros(0, np.int64)
        """As ``versions``, where the Node has changed, or what plugins that don't count pods see of the pods: statuses
        come and go, as those of victims."""
        self._numbers: OrderedDict[Hashable, KeptNumbers] = OrderedDict()
        self._facets: OrderedDict[Facet, KeptFacet] = OrderedDict()
        self._nodes: list[Node | None] = []
        self._ports: list[frozenset[HostPort]] = []
        """The ports in use by row: not those of its pods where one of two pods that shared one has gone."""
        self._source: Versions | None = None
        """The source of the versions in ``_seen``."""
        self._seen = np.zeros(0, np.int64)
        """By row, the version in the table up to which its pods and its Node are known."""
        self.kept = KeptAnswers()
        self.rows_searched = 0
        """How many rows the last search tried."""

    def stale_parts(self, table: NodeTable, rows: Lines) -> list[Lines]:
        """The rows among these that are not up to date, in parts of some ``PODS_A_STEP`` pods each."""
        stale = self._stale(table, rows)
        steps = np.cumsum(table.pod_count[stale] + 1) // PODS_A_STEP
        return np.split(stale, np.flatnonzero(np.diff(steps)) + 1) if len(stale) else []

    def refresh(self, table: NodeTable, rows: Lines) -> None:
        """Bring these rows up to date."""
        stale = self._stale(table, rows)
        if not len(stale):
            return
        pods, nodes, ports = table.pods, table.nodes, table.ports
        known_nodes, known_ports = self._nodes, self._ports
        for row in stale.tolist():
            if self._statuses_changed(row, pods[row]):
                self.versions[row] = self._pods_versions[row] = self._new_version()
            elif self._pods_changed(row, pods[row]):
                version = self._new_version()
                self.versions[row] = self._pods_versions[row] = self.amounts_versions[row] = version
            used = ports[row]
            if nodes[row] is not known_nodes[row] or (used or {}).keys() != known_ports[row]:
                known_nodes[row], known_ports[row] = nodes[row], frozenset(used or ())
                self.versions[row] = self.amounts_versions[row] = self._new_version()
        self._seen[stale] = table.row_version[stale]

    def _stale(self, table: NodeTable, rows: Lines) -> Lines:
        """Those of these rows that have changed since they were brought up to date, with the versions of this table."""
        has_many_profiles = len(self.profiles) > _FEWEST_PROFILES_TO_DROP
        if (self._source is not None and table.versions is not self._source) or (
            has_many_profiles and len(self.profiles) > 2 * int(table.pod_count.sum())
        ):
            self.clear()
        self._source = table.versions
        if len(self._nodes) < table.size:
            self._lengthen(table.size)
        is_stale: npt.NDArray[np.bool_] = self._seen[rows] != table.row_version[rows]
        return rows[is_stale]

    def numbers(self, rows: Lines, key: Hashable, measure: Measure, stamps: Matrix | None = None) -> Matrix:
        """A number of each pod of these rows, which are up to date; see ``RowPods.numbers``."""
        kept = self._numbers.get(key)
        if kept is None:
            kept = self._numbers[key] = KeptNumbers()
            if len(self._numbers) > _MAX_NUMBERS:
                self._numbers.popitem(last=False)
        self._numbers.move_to_end(key)
        kept.refresh(self, rows, measure, stamps)
        return kept.matrix[rows]

    def kinds(self, rows: Lines, facet: Facet) -> tuple[Matrix, Sequence[PodInfo | None]]:
        """A number for each value of the facet that the pods of these rows have; see ``RowPods.kinds``."""
        kept = self._facets.get(facet)
        if kept is None or len(kept.examples) > max(_FEWEST_PROFILES_TO_DROP, 4 * self.priority.size):
            kept = self._facets[facet] = KeptFacet(facet)
            if len(self._facets) > _MAX_NUMBERS:
                self._facets.popitem(last=False)
        kept.refresh(self, rows, kept.measure, None)
        return kept.matrix[rows], kept.examples

    @property
    def pods_versions(self) -> Matrix:
        """By row, a number that changes whenever the row's pods do."""
        return self._pods_versions

    def _statuses_changed(self, row: int, pods: Mapping[str, PodInfo]) -> bool:
        """Whether the row's pods have changed in nothing that is stored here. Then the new versions take the places of
        the old ones, and nothing else is to be done."""
        infos = self.infos[row]
        if not infos or len(infos) != len(pods) or not self.is_kept[row]:
            return False
        newer = [pods.get(info.uid) for info in infos]
        is_same = True
        for known, info in zip(infos, newer, strict=True):
            if info is not known:
                is_same = False
                if info is None or not _is_written_alike(known, info):
                    return False
        if is_same:
            return False
        self.infos[row] = [info for info in newer if info is not None]
        return True

    def _pods_changed(self, row: int, pods: Mapping[str, PodInfo]) -> bool:
        """Place the row's pods, those that have not changed where they were; returns whether any has changed."""
        count = len(pods)
        if count > _MAX_PODS:
            # Left unsorted: the arrays don't describe the row, so nothing reads their order.
            self.infos[row], self.is_kept[row] = [], False
            return True
        there = pods.get
        infos = self.infos[row]
        known = [place for place, info in enumerate(infos) if there(info.uid) is info] if self.is_kept[row] else []
        if len(known) == count == len(infos) and self.is_kept[row]:
            return False
        if 2 * len(known) <= count:
            arranged = most_important_first(pods.values(), LATER_THAN_ANY)
            places = [_ABSENT] * count
        else:
            arranged = [infos[place] for place in known]
            before = {info.uid for info in arranged}
            places = known
            for info in [info for uid, info in pods.items() if uid not in before]:
                place = bisect_left(arranged, importance(info, LATER_THAN_ANY), key=_importance)
                arranged.insert(place, info)
                places.insert(place, _ABSENT)
        self.infos[row] = arranged
        self.is_kept[row] = self._has_room(row, arranged)
        if self.is_kept[row]:
            self._write(row, arranged, places)
        return True

    def _write(self, row: int, infos: Sequence[PodInfo], places: Sequence[int]) -> None:
        """``places``: where each of these pods was in the row so far, ``_ABSENT`` where it is to be measured."""
        count = len(infos)
        new = [place for place, before in enumerate(places) if before == _ABSENT]
        have_moved = any(before not in (place, _ABSENT) for place, before in enumerate(places))
        measured = [infos[place] for place in new]
        charged = [info.charged for info in measured]

        def put(matrix: npt.NDArray[Any], numbers: Sequence[int]) -> None:
            if have_moved:
                line = matrix[row]
                line[:count] = line[places]
            if new:
                matrix[row, new] = numbers

        put(self.priority, [info.priority for info in measured])
        self.priority[row, count:] = NEVER_A_VICTIM
        put(self.profile, [self.profiles.number(info) for info in measured])
        put(self.charges["requested_cpu"], [vector.milli_cpu for vector in charged])
        put(self.charges["requested_memory"], [vector.memory for vector in charged])
        put(self.charges["requested_storage"], [vector.ephemeral_storage for vector in charged])
        for name, matrix in self.scalars.items():
            put(matrix, [vector.scalars.get(name, 0) for vector in charged])
        put(self.start, [start_time(info, LATER_THAN_ANY) for info in measured])
        starts = self.start[row, :count]
        started = starts[starts != LATER_THAN_ANY]
        self.last_start[row] = started.max() if 0 < len(started) < count else -1

    def _has_room(self, row: int, infos: Sequence[PodInfo]) -> bool:
        width = self.priority.shape[1]
        if len(infos) > width:
            width = 1 << (len(infos) - 1).bit_length()
            if width * len(self.infos) > _MAX_CELLS:
                return False
            self._widen(width)
        for name in {name for info in infos for name in info.charged.scalars}:
            if name not in self.scalars:
                if len(self.scalars) == _MAX_SCALARS:
                    return False
                self.scalars[name] = np.zeros(self.priority.shape, np.int64)
        return True

    def _lengthen(self, size: int) -> None:
        more = size - len(self.infos)
        self.infos += [[] for _ in range(more)]
        self._nodes += [None] * more
        self._ports += [frozenset()] * more
        self._seen = np.append(self._seen, np.zeros(more, np.int64))
        self.versions = np.append(self.versions, np.zeros(more, np.int64))
        self._pods_versions = np.append(self._pods_versions, np.zeros(more, np.int64))
        self.amounts_versions = np.append(self.amounts_versions, np.zeros(more, np.int64))
        self.is_kept = np.concatenate([self.is_kept, np.ones(more, np.bool_)])
        self.last_start = np.concatenate([self.last_start, np.full(more, -1, np.int64)])
        self._pad(((0, more), (0, 0)))

    def _widen(self, width: int) -> None:
        self._pad(((0, 0), (0, width - self.priority.shape[1])))

    def _pad(self, padding: tuple[tuple[int, int], tuple[int, int]]) -> None:
        self.priority = np.pad(self.priority, padding, constant_values=NEVER_A_VICTIM)
        self.profile = np.pad(self.profile, padding)
        self.start = np.pad(self.start, padding, constant_values=LATER_THAN_ANY)
        for matrices in (self.charges, self.scalars):
            for name, matrix in matrices.items():
                matrices[name] = np.pad(matrix, padding)


def _is_written_alike(known: PodInfo, info: PodInfo) -> bool:
    return (
        info.priority == known.priority
        and info.pod.status.start_time == known.pod.status.start_time
        and info.pod.spec == known.pod.spec
        and info.charged == known.charged
        and looks_the_same(known, info)
    )


def _importance(info: PodInfo) -> tuple[int, int, str, str]:
    return importance(info, LATER_THAN_ANY)
