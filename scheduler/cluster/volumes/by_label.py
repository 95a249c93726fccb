"""Things that only some nodes reach, found by the labels of the node that asks."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from scheduler.cluster.volumes.reach import Term
from scheduler.objects.node_selectors import NodeSelector
from scheduler.objects.requirements import Operator, Requirement
from scheduler.objects.selectors import Selector

Place = tuple[str, str]
"""A label and its value: all that reach a thing by it are looked up together."""
Ranked = tuple[int, str]
"""A size and a name: the order in which things of a place are listed."""


class ByLabel:
    """Names with a rank, each listed at every place from which a node may reach it.

    A caller must still ask the selector itself: a place stands for one of its requirements only. Things that
    no place can stand for are listed for every node.
    """

    __slots__ = ("_anywhere", "_at", "_keys", "_known")

    def __init__(self) -> None:
        self._anywhere: list[Ranked] = []
        self._at: dict[Place, list[Ranked]] = {}
        self._keys: Counter[str] = Counter()
        self._known: dict[str, tuple[Ranked, tuple[Place, ...] | None]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def copied(self) -> ByLabel:
        other = ByLabel()
        other._anywhere = list(self._anywhere)
        other._at = {place: list(listed) for place, listed in self._at.items()}
        other._keys = self._keys.copy()
        other._known = dict(self._known)
        return other

    def put(self, name: str, rank: int, places: tuple[Place, ...] | None) -> None:
        """Add a name, reached from these places; None: from everywhere."""
        self.drop(name)
        ranked = (rank, name)
        self._known[name] = ranked, places
        if places is None:
            insort(self._anywhere, ranked)
            return
        for place in places:
            insort(self._at.setdefault(place, []), ranked)
            self._keys[place[0]] += 1

    def drop(self, name: str) -> None:
        """Remove a name, if it is there."""
        known = self._known.pop(name, None)
        if known is None:
            return
        ranked, places = known
        if places is None:
            del self._anywhere[bisect_left(self._anywhere, ranked)]
            return
        for place in places:
            listed = self._at[place]
            del listed[bisect_left(listed, ranked)]
            if not listed:
                del self._at[place]
        _subtract(self._keys, [key for key, _ in places])

    def lists(self, labels: Mapping[str, str]) -> Iterator[list[Ranked]]:
        """Sorted lists, which may share names; a node with these labels reaches nothing that is in none of them."""
        if self._anywhere:
            yield self._anywhere
        for key in self._keys:
            value = labels.get(key)
            if value is not None:
                listed = self._at.get((key, value))
                if listed is not None:
                    yield listed


def _subtract(counter: Counter[str], keys: Iterable[str]) -> None:
    for key in keys:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


def terms_of(selector: NodeSelector | None) -> list[Term]:
    """What a node's labels must meet one of; None can be met everywhere."""
    return [()] if selector is None else [term.expressions for term in selector.terms if not term.faults]


# --- places of selectors ----------------------------------------------------------------------------------------------


def places_of_terms(selector: NodeSelector) -> tuple[Place, ...] | None:
    """Where a node must be to match one of the terms by its labels; None if no label value can tell."""
    places: dict[Place, None] = {}
    for term in selector.terms:
        if term.faults:
            continue
        found = _places(term.expressions)
        if found is None:
            return None
        places.update(dict.fromkeys(found))
    return tuple(places)


def places_of_labels(selector: Selector) -> tuple[Place, ...] | None:
    """Where a node must be to match the label selector, as ``places_of_terms``."""
    return () if selector.selects_nothing else _places(selector.requirements)


def _places(requirements: Iterable[Requirement]) -> tuple[Place, ...] | None:
    listed = [requirement for requirement in requirements if requirement.operator is Operator.IN]
    if not listed:
        return None
    narrowest = min(listed, key=lambda requirement: len(requirement.values))
    return tuple((narrowest.key, value) for value in narrowest.values)
