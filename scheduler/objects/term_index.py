"""Many node selector terms, found by the labels of the node that asks: waiting pods hear of every event of a node."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.objects.node_selectors import NODE_NAME_FIELD, NodeSelector, NodeSelectorTerm
from scheduler.objects.requirements import Operator, Requirement
from scheduler.objects.selectors import SelectorError, joined


class TermIndex:
    """Answers as its selector does, for nodes with a name. A term that asks for one thing alone is merged with those
    that ask alike, and one that asks for a value or a name is filed there; only the others are gone through."""

    __slots__ = ("_absent", "_at", "_faults", "_limits", "_named", "_others", "_present", "_unwanted")

    def __init__(self, selector: NodeSelector) -> None:
        self._at: dict[tuple[str, str], list[NodeSelectorTerm]] = {}
        self._named: dict[str, list[NodeSelectorTerm]] = {}
        self._present: set[str] = set()
        """Keys that are enough for a match."""
        self._absent: set[str] = set()
        self._unwanted: dict[str, set[str]] = {}
        """Key → the values that all of its NotIn terms exclude; any other is a match."""
        self._limits: dict[tuple[str, Operator], int] = {}
        """What a number must be greater or less than for the easiest of the terms."""
        self._others: list[NodeSelectorTerm] = []
        self._faults = selector.faults
        for term in selector.terms:
            if not term.faults and not (len(term.expressions) == 1 and not term.fields and self._merge(term)):
                self._file(term)

    def evaluate(self, labels: Mapping[str, str], node_name: str) -> bool:
        """As ``NodeSelector.evaluate``: raises SelectorError if nothing matched and some term has faults."""
        if self.matches(labels, node_name):
            return True
        if self._faults:
            raise SelectorError(joined(list(self._faults)))
        return False

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        terms = [*self._named.get(node_name, ()), *self._others]
        for label in labels.items():
            terms += self._at.get(label, ())
        return (
            not self._present.isdisjoint(labels)
            or any(key not in labels for key in self._absent)
            or any(labels.get(key) not in values for key, values in self._unwanted.items())
            or any(_is_beyond(labels.get(key), operator, limit) for (key, operator), limit in self._limits.items())
            or any(term.matches(labels, node_name) for term in terms)
        )

    def _merge(self, term: NodeSelectorTerm) -> bool:
        """Whether the term's one requirement was merged with those like it."""
        (one,) = term.expressions
        match one.operator:
            case Operator.EXISTS:
                self._present.add(one.key)
            case Operator.ABSENT:
                self._absent.add(one.key)
            case Operator.NOT_IN:
                known = self._unwanted.get(one.key)
                self._unwanted[one.key] = set(one.values) if known is None else known.intersection(one.values)
            case Operator.GREATER | Operator.LESS:
                number = Requirement.number(one.values[0])
                if number is not None:
                    at = one.key, one.operator
                    easiest = min if one.operator is Operator.GREATER else max
                    self._limits[at] = easiest(number, self._limits.get(at, number))
            case _:
                return False
        return True

    def _file(self, term: NodeSelectorTerm) -> None:
        wanted = [one for one in term.expressions if one.operator is Operator.IN]
        names = [one for one in term.fields if one.operator is Operator.IN and one.key == NODE_NAME_FIELD]
        if names:
            self._named.setdefault(names[0].values[0], []).append(term)
        elif wanted:
            narrowest = min(wanted, key=lambda one: len(one.values))
            for value in narrowest.values:
                self._at.setdefault((narrowest.key, value), []).append(term)
        else:
            self._others.append(term)


def _is_beyond(text: str | None, operator: Operator, limit: int) -> bool:
    number = Requirement.number(text) if text is not None else None
    return number is not None and (number > limit if operator is Operator.GREATER else number < limit)
