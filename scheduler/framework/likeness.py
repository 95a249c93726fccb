"""Likenesses: pods of one class share the answers of plugins that read claims. Each pod of a StatefulSet has a claim of
its own, and a plugin's answer for a node seldom depends on which one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import State

Stamps = npt.NDArray[np.int64]
PartsOf = Callable[[PodInfo], Iterable[Hashable]]


def _none(_: PodInfo) -> Iterable[Hashable]:
    return ()


class Likeness(Struct, frozen=True, eq=False):
    """What a filter's answers for rows depend on.

    Pods of one class whose ``key`` is equal get the same answer for a row while its Node, its pods, the pods nominated
    to it and its stamp stay the same; but not for rows that have something of a pod's own.
    """

    key: Hashable
    stamps: Stamps | None = None
    """By row, a number that changes with anything else that the answer depends on and never falls; None: there is
    nothing else."""
    own_rows: frozenset[int] = frozenset()
    """Rows whose pods have one of the pod's own parts."""
    parts: frozenset[Hashable] = frozenset()
    """What the pod asks for and others may have, too, such as a volume."""
    parts_of: PartsOf = _none
    """Those of another pod, which is nominated to a row: if it has one of the pod's own, so has the row."""

    def and_also(self, other: Likeness) -> Likeness:
        """The likeness of both filters together."""
        stamps, mine, theirs = self.stamps, self.parts_of, other.parts_of
        if other.stamps is not None:
            # Stamps never decrease, so the sum is unchanged only while both are.
            stamps = other.stamps if stamps is None else stamps + other.stamps
        return Likeness(
            (self.key, other.key),
            stamps,
            self.own_rows | other.own_rows,
            self.parts | other.parts,
            mine if theirs is _none else lambda info: (*mine(info), *theirs(info)),
        )


NO_CLAIMS = Likeness(())


class AlikeState(State):
    """A State of a plugin that declares nothing, but can say what the answers for rows come from."""

    __slots__ = ()

    def likeness(self, view: View) -> Likeness | None:
        """Asked of the view of the cluster, or of a fork. None: nothing is promised of this pod."""
        raise NotImplementedError


def likeness_of(states: Iterable[object], view: View) -> Likeness | None:
    """The likeness of all these states together; None where one of them has none."""
    whole = NO_CLAIMS
    for state in states:
        if not isinstance(state, AlikeState) or not view.volumes.is_of(view.table):
            return None
        found = state.likeness(view)
        if found is None:
            return None
        whole = found if whole is NO_CLAIMS else whole.and_also(found)
    return whole


class PartsOfRows:
    """Which rows have a nominated pod with a part."""

    __slots__ = ("_parts", "_rows")

    def __init__(self) -> None:
        self._parts: dict[int, tuple[Hashable, ...]] = {}
        self._rows: dict[Hashable, set[int]] = {}

    def put(self, row: int, nominated: Iterable[PodInfo], likeness: Likeness) -> bool:
        """These pods are nominated to the row, and no others. Returns whether one of them has a part of the pod's own
        whose likeness this is."""
        parts_of = likeness.parts_of
        if parts_of is _none and not self._parts:
            return False
        for part in self._parts.pop(row, ()):
            rows = self._rows[part]
            rows.discard(row)
            if not rows:
                del self._rows[part]
        parts = tuple({part for info in nominated for part in parts_of(info)}) if parts_of is not _none else ()
        if parts:
            self._parts[row] = parts
            for part in parts:
                self._rows.setdefault(part, set()).add(row)
        return not likeness.parts.isdisjoint(parts)

    def clear(self) -> None:
        self._parts.clear()
        self._rows.clear()

    def rows_of_its_own(self, likeness: Likeness) -> set[int]:
        """The rows of which other pods' answers say nothing to a pod."""
        own = set(likeness.own_rows)
        for part in likeness.parts:
            own |= self._rows.get(part, set())
        return own
