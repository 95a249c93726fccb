"""A requirement on one label, the building block of selectors (docs/kube-scheduler/plugins.md §2.5, §2.6)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from scheduler.objects.memo import MAX_PARTS
from scheduler.objects.quantity import MAX_INT64, MIN_INT64

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX_DIGITS = 64


class Operator(Enum):
    """The operators of requirements, by their name in the API."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    ABSENT = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"

    __hash__ = object.__hash__
    """Enum's own is a function in Python, called for each requirement that is hashed."""


class ManyValues(tuple[str, ...]):
    """Values in which one is found without comparing it with all of them."""

    _set: frozenset[str]

    def __new__(cls, values: Iterable[str]) -> ManyValues:
        self = super().__new__(cls, values)
        self._set = frozenset(self)
        return self

    def __contains__(self, value: object) -> bool:
        return value in self._set


MAX_SORTED = 4_096
"""Values, or requirements, that are put in order. To sort 165,000 values, which one pod can hold, takes 80 ms, and only
makes one of two lists that differ in order alone."""


def in_order(values: tuple[str, ...]) -> tuple[str, ...]:
    """The distinct values, sorted unless they are very many."""
    if len(values) < 2:
        return values
    if len(values) <= MAX_PARTS:
        return tuple(sorted(set(values)))
    return ManyValues(sorted(set(values)) if len(values) <= MAX_SORTED else dict.fromkeys(values))


class Requirement(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A requirement. Hashable. `values` are those of `in_order`. NotIn and DoesNotExist match an absent label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the requirement. Gt and Lt are False where a side is no number; NotIn holds without the
        label."""
        value = labels.get(self.key)
        operator = self.operator
        if operator is Operator.IN:
            return value in self.values
        if operator is Operator.NOT_IN:
            return value not in self.values
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.ABSENT:
            return value is None
        actual = self.number(value) if value is not None else None
        limit = self.number(self.values[0])
        if actual is None or limit is None:
            return False
        return actual > limit if operator is Operator.GREATER else actual < limit

    @staticmethod
    def number(text: str) -> int | None:
        """The text as a 64-bit decimal number, with or without a sign and leading zeros; None if it is not one."""
        if not _INTEGER.fullmatch(text):
            return None
        digits = text.lstrip("+-").lstrip("0") or "0"
        if len(digits) > _MAX_DIGITS:
            return None
        number = -int(digits) if text[0] == "-" else int(digits)
        return number if MIN_INT64 <= number <= MAX_INT64 else None

    def __str__(self) -> str:
        match self.operator:
            case Operator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case Operator.IN:
                return f"{self.key} in ({','.join(self.values)})"
            case Operator.NOT_IN:
                return f"{self.key} notin ({','.join(self.values)})"
            case Operator.EXISTS:
                return self.key
            case Operator.ABSENT:
                return f"!{self.key}"
            case Operator.GREATER:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS:
                return f"{self.key}<{self.values[0]}"
