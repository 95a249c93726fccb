"""The order of nodes: zone by zone in turn, as kube-scheduler lists them.

Source: docs/kube-scheduler/cycle.md §4, plugins.md §2.11.

Sampling, preemption's walk and every tie go by it. Zones come in order of first appearance, nodes of a zone in order of
arrival; the list takes one node of each zone in turn, leaving out the zones that are used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt


def zone_key(labels: Mapping[str, str]) -> tuple[str, str]:
    """(region, zone); the legacy label wins where it is there."""
    get = labels.get
    region = get("failure-domain.beta.kubernetes.io/region") or get("topology.kubernetes.io/region") or ""
    zone = get("failure-domain.beta.kubernetes.io/zone") or get("topology.kubernetes.io/zone") or ""
    return region, zone


class NodeOrder:
    """Rows in kube-scheduler's order, computed again only when a node comes, goes or moves to another zone."""

    __slots__ = ("_is_shared", "_rows", "_zone_of", "_zones")

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[int, None]] = {}
        self._zone_of: dict[int, tuple[str, str]] = {}
        self._rows: npt.NDArray[np.int64] | None = None
        self._is_shared = False
        """Whether a fork has, or had, the same dicts: they are copied before they change."""

    def __len__(self) -> int:
        return len(self._zone_of)

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """Note that a node is on ``row`` with these labels; it keeps its place unless its zone has changed."""
        key = zone_key(labels)
        before = self._zone_of.get(row)
        if before == key:
            return
        if self._is_shared:
            self._own()
        if before is not None:
            self.drop(row)
        zone = self._zones.get(key)
        if zone is None:
            zone = self._zones[key] = {}
        zone[row] = None
        self._zone_of[row] = key
        self._rows = None

    def drop(self, row: int) -> None:
        if row not in self._zone_of:
            return
        if self._is_shared:
            self._own()
        key = self._zone_of.pop(row)
        del self._zones[key][row]
        if not self._zones[key]:
            del self._zones[key]
        self._rows = None

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Rows of the nodes that exist, int64, in order. Do not change it."""
        if self._rows is None:
            zones = [list(rows) for rows in self._zones.values()]
            depth = max(map(len, zones), default=0)
            listed = [zone[i] for i in range(depth) for zone in zones if i < len(zone)]
            self._rows = np.array(listed, dtype=np.int64)
            self._rows.flags.writeable = False
        return self._rows

    def taken(self, rows: Sequence[int]) -> NodeOrder:
        """The order of these rows as rows 0, 1, ..., as if their nodes had come in this sequence."""
        other = NodeOrder()
        for place, row in enumerate(rows):
            key = self._zone_of.get(row)
            if key is not None:
                other._zones.setdefault(key, {})[place] = None
                other._zone_of[place] = key
        return other

    def fork(self) -> NodeOrder:
        other = NodeOrder()
        other._zones, other._zone_of, other._rows = self._zones, self._zone_of, self._rows
        self._is_shared = other._is_shared = True
        return other

    def _own(self) -> None:
        self._zones = {key: dict(rows) for key, rows in self._zones.items()}
        self._zone_of = dict(self._zone_of)
        self._is_shared = False
