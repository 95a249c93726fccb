"""Which rows a pod's node selector, node affinity and tolerations accept: asked once a value, read through columns.

Answers for rows without a Node object mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler.cluster.interning import ABSENT
from scheduler.cluster.label_column import LabelColumn
from scheduler.cluster.node_columns import Rows
from scheduler.cluster.table import NodeTable
from scheduler.cluster.vocabulary import REPELLING_EFFECTS
from scheduler.objects.node import Node
from scheduler.objects.node_selectors import NODE_NAME_FIELD, NodeSelector, NodeSelectorTerm, RequiredNodeAffinity
from scheduler.objects.pod import Toleration
from scheduler.objects.requirements import Operator, Requirement
from scheduler.objects.steps import Pace, Steps, run_to_end

Mask = npt.NDArray[np.bool_]

NEEDS_LABEL = (Operator.IN, Operator.EXISTS, Operator.GREATER, Operator.LESS)
"""Operators that a node without the label does not meet."""


_REQUIREMENTS_A_SLICE = 500
"""Requirements in a slice: each is looked up for all rows at once, 20 to 50 µs with 5,000 of them, so a slice takes 10
to 25 ms."""


def term_pace() -> Pace:
    """The pace of a search whose steps are requirements, each looked up for all rows at once."""
    return Pace(_REQUIREMENTS_A_SLICE)


# --- labels and names -------------------------------------------------------------------------------------------------


def matches_required(table: NodeTable, required: RequiredNodeAffinity, rows: Rows) -> Mask:
    """Rows that the pod's ``nodeSelector`` and required node affinity accept: bool, one a row asked."""
    return run_to_end(required_in_steps(table, required, rows))


def required_in_steps(table: NodeTable, required: RequiredNodeAffinity, rows: Rows) -> Steps[Mask]:
    """``matches_required`` with pauses, for many terms."""
    mask = np.ones(len(table.exists[rows]), np.bool_)
    if any(table.narrow_rows(key) == () for key, _ in required.labels):
        return np.zeros(len(mask), np.bool_)
    for key, value in required.labels:
        column = table.label(key)[rows]
        value_id = table.label_values(key).find(value)
        if value_id == ABSENT:
            return np.zeros(len(mask), np.bool_)
        mask &= column == value_id
    if required.selector is not None:
        mask &= yield from selector_in_steps(table, required.selector, rows)
    return mask


def matches_selector(table: NodeTable, selector: NodeSelector, rows: Rows) -> Mask:
    """Rows that one of the selector's terms accepts: bool, one a row asked. Terms with faults accept none."""
    return run_to_end(selector_in_steps(table, selector, rows))


def selector_in_steps(table: NodeTable, selector: NodeSelector, rows: Rows) -> Steps[Mask]:
    """``matches_selector`` with pauses, for many terms."""
    pace = term_pace()
    mask = np.zeros(len(table.exists[rows]), np.bool_)
    listed: list[int] = []
    values: dict[str, list[str]] = {}
    for term in selector.terms:
        few = accepted_rows(table, term)
        if few is not None:
            listed += few
        elif is_one_of_values(term):
            values.setdefault(term.expressions[0].key, []).extend(term.expressions[0].values)
        else:
            mask |= yield from term_in_steps(table, term, rows, pace)
        if pace.is_over:
            yield from pace.pause()
    for key, wanted in values.items():
        mask |= _with_values(table, key, wanted, True).take(table.label(key)[rows])
    if listed:
        whole = np.zeros(table.size, np.bool_)
        whole[listed] = True
        mask |= whole[rows]
    return mask


def accepted_rows(table: NodeTable, term: NodeSelectorTerm) -> Sequence[int] | None:
    """The rows that a term accepts, where it names nodes or requires a label that few have; None where all must be
    looked at."""
    if term.faults:
        return ()
    for requirement in term.fields:
        if requirement.key == NODE_NAME_FIELD and requirement.operator is Operator.IN:
            named = [table.existing_row(name) for name in requirement.values]
            return [row for row in named if row is not None and _accepts(term, table.nodes[row])]
    for requirement in term.expressions:
        if requirement.operator in NEEDS_LABEL:
            rows = table.narrow_rows(requirement.key)
            if rows is not None:
                return [row for row in rows if _accepts(term, table.nodes[row])]
    return None


def _accepts(term: NodeSelectorTerm, node: Node | None) -> bool:
    return node is not None and term.matches(node.metadata.labels, node.metadata.name)


def is_one_of_values(term: NodeSelectorTerm) -> bool:
    """Whether the term asks for nothing but a value of a label: many such are asked at once."""
    return len(term.expressions) == 1 and not term.fields and term.expressions[0].operator is Operator.IN


def matches_term(table: NodeTable, term: NodeSelectorTerm, rows: Rows) -> Mask:
    """Rows that meet all requirements of the term: bool, one a row asked."""
    return run_to_end(term_in_steps(table, term, rows, term_pace()))


def term_in_steps(table: NodeTable, term: NodeSelectorTerm, rows: Rows, pace: Pace) -> Steps[Mask]:
    """``matches_term`` with pauses, for many requirements."""
    length = len(table.exists[rows])
    if term.faults:
        return np.zeros(length, np.bool_)
    mask = np.ones(length, np.bool_)
    unwanted: dict[str, list[str]] = {}
    for requirement in term.expressions:
        if table.narrow_rows(requirement.key) == ():
            if requirement.operator in NEEDS_LABEL:
                return np.zeros(length, np.bool_)
        elif requirement.operator is Operator.NOT_IN:
            unwanted.setdefault(requirement.key, []).extend(requirement.values)
        else:
            mask &= matches_requirement(table, requirement, rows)
            pace.left -= 1
            if pace.is_over:
                yield from pace.pause()
    for key, values in unwanted.items():
        pace.left -= 1
        if pace.is_over:
            yield from pace.pause()
        mask &= _with_values(table, key, values, False).take(table.label(key)[rows])
    for requirement in term.fields:
        mask &= _matches_field(table, requirement, rows)
    return mask


class Labelled(Protocol):
    """What has a column of value ids for each label key: a node table, say."""

    def label(self, key: str) -> npt.NDArray[np.int32]: ...

    def label_values(self, key: str) -> LabelColumn: ...


def matches_requirement(table: Labelled, requirement: Requirement, rows: Rows) -> Mask:
    """Rows whose label meets the requirement: bool, one a row asked."""
    column = table.label(requirement.key)[rows]
    operator = requirement.operator
    if operator in (Operator.EXISTS, Operator.ABSENT):
        present: Mask = column != ABSENT
        return present if operator is Operator.EXISTS else ~present
    if operator in (Operator.IN, Operator.NOT_IN):
        return _with_values(table, requirement.key, requirement.values, operator is Operator.IN).take(column)
    return _in_order(table.label_values(requirement.key), requirement).take(column)


def _with_values(table: Labelled, key: str, wanted: Iterable[str], is_wanted: bool) -> Mask:
    """By value id: whether it is one of these, or is not."""
    values = table.label_values(key)
    accepts = np.full(len(values), not is_wanted)
    for value in wanted:
        value_id = values.find(value)
        if value_id != ABSENT:
            accepts[value_id] = is_wanted
    return accepts


def weights_of_values(table: Labelled, key: str, weighted: Iterable[tuple[str, int]]) -> npt.NDArray[np.int64]:
    """The sum of the weights given for each value of a label, by value id."""
    values = table.label_values(key)
    sums = np.zeros(len(values), np.int64)
    for value, weight in weighted:
        value_id = values.find(value)
        if value_id != ABSENT:
            sums[value_id] += weight
    return sums


def _in_order(values: LabelColumn, requirement: Requirement) -> Mask:
    """Which values, by id, are numbers on the right side of the requirement's."""
    limit = Requirement.number(requirement.values[0])
    if limit is None:
        return np.zeros(len(values), np.bool_)
    numbers, are_numbers = values.numbers
    accepts: Mask = are_numbers & (numbers > limit if requirement.operator is Operator.GREATER else numbers < limit)
    return accepts


def _matches_field(table: NodeTable, requirement: Requirement, rows: Rows) -> Mask:
    wanted = requirement.operator is Operator.IN
    if requirement.key != NODE_NAME_FIELD:
        # A field that does not exist reads as the empty text.
        return np.full(len(table.exists[rows]), ("" in requirement.values) is wanted)
    mask = np.full(table.size, not wanted)
    for name in requirement.values:
        row = table.existing_row(name)
        if row is not None:
            mask[row] = wanted
    return mask[rows]


# --- taints -----------------------------------------------------------------------------------------------------------


def tolerated_taint_sets(
    table: NodeTable,
    tolerations: tuple[Toleration, ...],
    effects: tuple[str, ...] = REPELLING_EFFECTS,
    *,
    comparison_operators: bool = False,
) -> Mask:
    """Whether all taints with one of the effects are tolerated: bool by taint-set id, to be read through
    ``table.taint_set``. Do not change it. ``comparison_operators``: as of ``objects.taints.tolerates``."""
    return table.vocabulary.taint_answers(tolerations, effects, comparison_operators)
