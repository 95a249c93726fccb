"""Label selectors: parsed, validated and canonical (docs/kube-scheduler/plugins.md §2.5).

Selectors that differ only in order are equal and have the same hash, so that counters can be kept per selector; but for
those of thousands of requirements or values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.errors import SchedulerError
from scheduler.objects.memo import has_many_parts, memo
from scheduler.objects.qualified_names import (
    are_label_values,
    are_qualified_names,
    label_value_faults,
    qualified_name_faults,
)
from scheduler.objects.requirements import MAX_SORTED, Operator, Requirement, in_order
from scheduler.objects.selector_fields import LabelSelector
from scheduler.objects.steps import Steps, run_to_end

Expression = tuple[str, str, tuple[str, ...]]
"""Key, operator and values as in the API object."""

_OPERATORS = {operator.value: operator for operator in (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.ABSENT)}


_NEED_VALUES = (Operator.IN, Operator.NOT_IN)
_NEED_NO_VALUES = (Operator.EXISTS, Operator.ABSENT)


class SelectorError(SchedulerError, ValueError):
    """The selector is invalid. The text is kube-scheduler 1.36's."""


class Selector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A label selector, which matches if all its requirements do. `selects_nothing` is the absent selector.

    Create one with `parse_selector`, `equality_selector` or `combined`, which keep it canonical.
    """

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether it is the empty selector, `{}`."""
        return not self.requirements and not self.selects_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.selects_nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110 - a loop, for speed: this runs millions of times
            if not requirement.matches(labels):
                return False
        return True

    def __str__(self) -> str:
        return "<nothing>" if self.selects_nothing else ",".join(str(part) for part in self.requirements)


EVERYTHING = Selector()
NOTHING = Selector(selects_nothing=True)


def parse_selector(written: LabelSelector | None) -> Selector:
    """Parses a selector; None selects nothing, an empty one everything. Raises `SelectorError`."""
    if written is None:
        return NOTHING
    if not written.match_labels and not written.match_expressions:
        return EVERYTHING
    if is_very_long(written):
        return run_to_end(parse_selector_in_steps(written))
    return _parse(tuple(_expressions(written)))


def is_very_long(written: LabelSelector | None) -> bool:
    """Whether parsing the selector takes more than some 10 ms."""
    return written is not None and len(written.match_labels) + len(written.match_expressions) > MAX_SORTED


def parse_selector_in_steps(written: LabelSelector | None) -> Steps[Selector]:
    """``parse_selector`` with pauses, for selectors that are very long: 55,000 labels of 1.5 MB take 90 ms."""
    if written is None or not is_very_long(written):
        return parse_selector(written)
    expressions = _expressions(written)
    found: dict[Requirement, None] = {}
    for start in range(0, len(expressions), MAX_SORTED):
        yield
        found |= dict.fromkeys(_parse(tuple(expressions[start : start + MAX_SORTED])).requirements)
    return Selector(tuple(found))


def _expressions(written: LabelSelector) -> list[Expression]:
    expressions: list[Expression] = [(key, "In", (value,)) for key, value in written.match_labels.items()]
    return expressions + [(part.key, part.operator, part.values) for part in written.match_expressions]


def equality_selector(labels: Mapping[str, str]) -> Selector:
    """The selector that requires exactly these labels, not validated. An empty map selects everything."""
    return _canonical([Requirement(key, Operator.IN, (value,)) for key, value in labels.items()])


def combined(*selectors: Selector) -> Selector:
    """The conjunction of the selectors."""
    if any(selector.selects_nothing for selector in selectors):
        return NOTHING
    return _canonical([part for selector in selectors for part in selector.requirements])


@memo(4096, has_many_parts)
def _parse(expressions: tuple[Expression, ...]) -> Selector:
    if has_many_parts(expressions) and are_faultless(expressions, _OPERATORS):
        return _canonical([Requirement(key, _OPERATORS[name], in_order(values)) for key, name, values in expressions])
    requirements: list[Requirement] = []
    for key, written_operator, values in expressions:
        operator = _OPERATORS.get(written_operator)
        if operator is None:
            raise SelectorError(f'"{written_operator}" is not a valid label selector operator')
        faults = requirement_faults(key, operator, values)
        if faults:
            raise SelectorError(joined(faults))
        requirements.append(Requirement(key, operator, in_order(values)))
    return _canonical(requirements)


def _canonical(requirements: list[Requirement]) -> Selector:
    if not requirements:
        return EVERYTHING
    if len(requirements) > MAX_SORTED:
        return Selector(tuple(dict.fromkeys(requirements)))
    return Selector(tuple(sorted(set(requirements), key=_order)))


def _order(requirement: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return requirement.key, requirement.operator.value, requirement.values


# --- faults -----------------------------------------------------------------------------------------------------------


def are_faultless(expressions: Sequence[Expression], operators: Mapping[str, Operator]) -> bool:
    """Whether none of many requirements on labels has a fault: a tenth of the time that asking for each takes. May be
    False without a fault: where numbers are compared."""
    wanted: list[str] = []
    for _, name, values in expressions:
        operator = operators.get(name)
        if operator in _NEED_VALUES and values:
            wanted += values
        elif values or operator not in _NEED_NO_VALUES:
            return False
    return are_qualified_names([key for key, _, _ in expressions]) and are_label_values(wanted)


def requirement_faults(key: str, operator: Operator, values: tuple[str, ...], path: str = "") -> list[str]:
    """The faults of a requirement on labels, in kube-scheduler 1.36's words. `path` is the expression's field path."""
    if (
        len(values) == 1
        and operator in _NEED_VALUES
        and not (qualified_name_faults(key) or label_value_faults(values[0]))
    ):
        return []  # The usual case, checked first: a pod of the largest size may have 20,000 of them.
    if (
        has_many_parts(values)
        and operator in _NEED_VALUES
        and not qualified_name_faults(key)
        and are_label_values(values)
    ):
        return []
    at = f"{path}." if path else ""
    faults = [f'{at}key: Invalid value: "{key}": {fault}' for fault in qualified_name_faults(key)]
    match operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                faults.append(
                    f"{at}values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
                )
        case Operator.EXISTS | Operator.ABSENT:
            if values:
                rule = "values set must be empty for exists and does not exist"
                faults.append(f"{at}values: Invalid value: {_shown(values)}: {rule}")
        case Operator.GREATER | Operator.LESS:
            if len(values) != 1:
                rule = "for 'Gt', 'Lt' operators, exactly one value is required"
                faults.append(f"{at}values: Invalid value: {_shown(values)}: {rule}")
            rule = "for 'Gt', 'Lt' operators, the value must be an integer"
            faults += [
                f'{at}values[{index}]: Invalid value: "{value}": {rule}'
                for index, value in enumerate(values)
                if Requirement.number(value) is None
            ]
    for index, value in enumerate(values):
        faults += [
            f'{at}values[{index}][{key}]: Invalid value: "{value}": {fault}' for fault in label_value_faults(value)
        ]
    return faults


def _shown(values: tuple[str, ...]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]" if values else "null"


def joined(faults: list[str]) -> str:
    """The faults as one text, without duplicates, in the format of Go's API machinery."""
    distinct = list(dict.fromkeys(faults))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
