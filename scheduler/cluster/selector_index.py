"""Which of many interned selectors can match a given set of labels, without trying them all.

Each selector is filed under one label that it requires: a pod without that label is never compared with it. Selectors
that require no particular value (``Exists``, ``NotIn`` ...) are few and are always compared. The namespaces of a query
are one *area*, under which it is filed as a whole: one pod may write two hundred namespaces into each of a thousand
terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.cluster.forkable import ForkableDict
from scheduler.errors import InvariantViolation
from scheduler.objects.memo import MAX_PARTS
from scheduler.objects.requirements import Operator
from scheduler.objects.selectors import Selector

Namespaces = frozenset[str] | None
"""The namespaces whose pods count; None = those of all."""
ALL_NAMESPACES: Namespaces = None

MAX_PLACES: Final = 1_000
"""An id that would be filed under more values of a key is compared with all pods of its namespaces, one of more
namespaces with those of all: 165,000 places take 0.2 s."""

_Label = tuple[str, str] | None
_Place = tuple[Namespaces, _Label]


class SelectorIndex:
    """Ids filed by namespaces and required label; iteration is in the order of filing within a place. Of very many
    requirements the first are looked at."""

    __slots__ = ("_areas", "_filed", "_places", "_used")

    def __init__(self) -> None:
        self._areas: ForkableDict[str, dict[frozenset[str], None]] = ForkableDict()
        """Namespace → the areas that it is in."""
        self._used: ForkableDict[frozenset[str], int] = ForkableDict()
        """How many ids are filed under an area."""
        self._places: ForkableDict[_Place, dict[int, None]] = ForkableDict()
        self._filed: ForkableDict[int, tuple[_Place, ...]] = ForkableDict()
        """Where each id is."""

    def put(self, entry: int, namespaces: Namespaces, selector: Selector) -> None:
        """File a new id. Raises InvariantViolation if it is there."""
        if entry in self._filed:
            raise InvariantViolation(f"selector {entry} is filed already")
        if namespaces is not None and len(namespaces) > MAX_PLACES:
            namespaces = None
        places = self._emptiest_places(namespaces, selector)
        for place in places:
            if place in self._places:
                self._places.writable(place, dict)[entry] = None
            else:
                self._places[place] = {entry: None}
        self._filed[entry] = places
        if places and namespaces is not None:
            self._use(namespaces)

    def drop(self, entry: int) -> None:
        """Take an id out. Raises KeyError if it is not there."""
        places = self._filed.pop(entry)
        area = places[0][0] if places else None
        if area is not None:
            self._disuse(area)
        for place in places:
            if len(self._places[place]) == 1:
                del self._places[place]
            else:
                del self._places.writable(place, dict)[entry]

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[int]:
        """Ids worth comparing with a pod's namespace and labels, each once: all that match are among them."""
        places = self._places
        if not places:
            return
        for area in (*self._areas.get(namespace, ()), None):
            rest = places.get((area, None))
            if rest:
                yield from rest
            for label in labels.items():
                entries = places.get((area, label))
                if entries:
                    yield from entries

    def fork(self) -> SelectorIndex:
        other = SelectorIndex()
        other._areas = self._areas.fork()
        other._used = self._used.fork()
        other._places = self._places.fork()
        other._filed = self._filed.fork()
        return other

    def _emptiest_places(self, namespaces: Namespaces, selector: Selector) -> tuple[_Place, ...]:
        """Of the labels that the selector requires, those of the one key that fewest others are filed under."""
        if selector.selects_nothing:
            return ()
        # A pod has one value of a key, so it meets each id at most once.
        choices = [
            tuple([(namespaces, (requirement.key, value)) for value in requirement.values])
            for requirement in selector.requirements[:MAX_PARTS]
            if requirement.operator is Operator.IN and len(requirement.values) <= MAX_PLACES
        ]
        if len(choices) > 1:
            return min(choices, key=self._crowd)
        return choices[0] if choices else ((namespaces, None),)

    def _crowd(self, places: tuple[_Place, ...]) -> int:
        return sum([len(self._places.get(place, ())) + 1 for place in places])

    def _use(self, area: frozenset[str]) -> None:
        used = self._used.get(area, 0)
        self._used[area] = used + 1
        if not used:
            for namespace in area:
                if namespace in self._areas:
                    self._areas.writable(namespace, dict)[area] = None
                else:
                    self._areas[namespace] = {area: None}

    def _disuse(self, area: frozenset[str]) -> None:
        left = self._used[area] - 1
        if left:
            self._used[area] = left
            return
        del self._used[area]
        for namespace in area:
            areas = self._areas.writable(namespace, dict)
            del areas[area]
            if not areas:
                del self._areas[namespace]
