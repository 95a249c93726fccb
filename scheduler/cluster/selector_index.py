"""Which of many interned selectors can match a given set of labels, without trying them all.

Each selector is filed under one label that it requires: a pod without that label is never compared with it. Selectors
that require no particular value (``Exists``, ``NotIn`` ...) are few and are always compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.objects.requirements import Operator
from scheduler.objects.selectors import Selector

Namespaces = frozenset[str] | None
"""The namespaces whose pods count; None = those of all."""
ALL_NAMESPACES: Namespaces = None

_Label = tuple[str, str] | None
_Place = tuple[str | None, _Label]


def required_labels(selector: Selector) -> tuple[tuple[str, str], ...] | None:
    """(key, value) pairs of one key: whoever matches has exactly one of them. None if no key's values are listed."""
    fewest: tuple[tuple[str, str], ...] | None = None
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and (fewest is None or len(requirement.values) < len(fewest)):
            fewest = tuple([(requirement.key, value) for value in requirement.values])
    return fewest


class SelectorIndex:
    """Ids filed by namespace and required label; iteration is in the order of filing within a place."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[_Place, dict[int, None]] = {}

    def put(self, entry: int, namespaces: Namespaces, selector: Selector) -> None:
        for place in _places_of(namespaces, selector):
            self._places.setdefault(place, {})[entry] = None

    def drop(self, entry: int, namespaces: Namespaces, selector: Selector) -> None:
        """Take out what was put in with the same arguments."""
        for place in _places_of(namespaces, selector):
            entries = self._places[place]
            del entries[entry]
            if not entries:
                del self._places[place]

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[int]:
        """Ids worth comparing with a pod's labels, each once: all that match are among them."""
        places = self._places
        if not places:
            return
        for area in (namespace, None):
            rest = places.get((area, None))
            if rest:
                yield from rest
            for label in labels.items():
                entries = places.get((area, label))
                if entries:
                    yield from entries

    def copy(self) -> SelectorIndex:
        other = SelectorIndex()
        other._places = {place: dict(entries) for place, entries in self._places.items()}
        return other


def _places_of(namespaces: Namespaces, selector: Selector) -> Iterator[_Place]:
    if selector.selects_nothing:
        return
    areas: tuple[str | None, ...] = (None,) if namespaces is None else tuple(sorted(namespaces))
    labels: tuple[_Label, ...] | None = required_labels(selector)
    for area in areas:
        for label in (None,) if labels is None else labels:
            yield area, label
