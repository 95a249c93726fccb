"""Which rows a pod's node selector, node affinity and tolerations accept: asked once a value, read through columns.

Answers for rows without a Node object mean nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler.cluster.interning import ABSENT, Interner, LabelValues
from scheduler.cluster.table import NodeTable, TaintKey
from scheduler.objects.node import Taint
from scheduler.objects.node_selectors import NODE_NAME_FIELD, NodeSelector, NodeSelectorTerm, RequiredNodeAffinity
from scheduler.objects.pod import Toleration
from scheduler.objects.requirements import Operator, Requirement
from scheduler.objects.taints import NO_EXECUTE, NO_SCHEDULE, tolerated

Mask = npt.NDArray[np.bool_]
Rows = slice | npt.NDArray[np.int64]

REPELLING_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)


# --- labels and names -------------------------------------------------------------------------------------------------


def matches_required(table: NodeTable, required: RequiredNodeAffinity, rows: Rows) -> Mask:
    """Rows that the pod's ``nodeSelector`` and required node affinity accept: bool, one a row asked."""
    mask = np.ones(len(table.exists[rows]), np.bool_)
    for key, value in required.labels:
        column = table.label(key)[rows]
        value_id = table.label_values(key).find(value)
        if value_id == ABSENT:
            return np.zeros(len(mask), np.bool_)
        mask &= column == value_id
    if required.selector is not None:
        mask &= matches_selector(table, required.selector, rows)
    return mask


def matches_selector(table: NodeTable, selector: NodeSelector, rows: Rows) -> Mask:
    """Rows that one of the selector's terms accepts: bool, one a row asked. Terms with faults accept none."""
    mask = np.zeros(len(table.exists[rows]), np.bool_)
    for term in selector.terms:
        mask |= matches_term(table, term, rows)
    return mask


def matches_term(table: NodeTable, term: NodeSelectorTerm, rows: Rows) -> Mask:
    """Rows that meet all requirements of the term: bool, one a row asked."""
    length = len(table.exists[rows])
    if term.faults:
        return np.zeros(length, np.bool_)
    mask = np.ones(length, np.bool_)
    for requirement in term.expressions:
        mask &= matches_requirement(table, requirement, rows)
    for requirement in term.fields:
        mask &= _matches_field(table, requirement, rows)
    return mask


class Labelled(Protocol):
    """What has a column of value ids for each label key: a node table, say."""

    def label(self, key: str) -> npt.NDArray[np.int32]: ...

    def label_values(self, key: str) -> LabelValues: ...


def matches_requirement(table: Labelled, requirement: Requirement, rows: Rows) -> Mask:
    """Rows whose label meets the requirement: bool, one a row asked."""
    column = table.label(requirement.key)[rows]
    operator = requirement.operator
    if operator in (Operator.EXISTS, Operator.ABSENT):
        present: Mask = column != ABSENT
        return present if operator is Operator.EXISTS else ~present
    values = table.label_values(requirement.key)
    if operator in (Operator.IN, Operator.NOT_IN):
        wanted = operator is Operator.IN
        accepts = np.full(len(values), not wanted)
        for value in requirement.values:
            value_id = values.find(value)
            if value_id != ABSENT:
                accepts[value_id] = wanted
        return accepts.take(column)
    return _in_order(values, requirement).take(column)


def _in_order(values: LabelValues, requirement: Requirement) -> Mask:
    """Which values, by id, are numbers on the right side of the requirement's."""
    limit = Requirement.number(requirement.values[0])
    accepts = np.zeros(len(values), np.bool_)
    if limit is None:
        return accepts
    greater = requirement.operator is Operator.GREATER
    for value_id in range(1, len(values)):
        number = values.number(value_id)
        accepts[value_id] = number is not None and (number > limit if greater else number < limit)
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
    table: NodeTable, tolerations: tuple[Toleration, ...], effects: tuple[str, ...] = REPELLING_EFFECTS
) -> Mask:
    """Whether all taints with one of the effects are tolerated: bool by taint-set id, to be read through
    ``table.taint_set``. Do not change it."""
    return _taint_answers(table.vocabulary.taints, tolerations, effects).up_to_date()


class _TaintAnswers:
    """The answers for one list of tolerations, worked out once a taint set."""

    __slots__ = ("_answers", "_effects", "_sets", "_tolerations")

    def __init__(
        self, sets: Interner[tuple[TaintKey, ...]], tolerations: tuple[Toleration, ...], effects: tuple[str, ...]
    ) -> None:
        self._sets = sets
        self._tolerations = tolerations
        self._effects = effects
        self._answers: Mask = np.ones(1, np.bool_)

    def up_to_date(self) -> Mask:
        known = len(self._answers)
        if known < len(self._sets):
            more = [self._accepts(taints or ()) for taints in self._sets.values[known:]]
            self._answers = np.append(self._answers, more)
        return self._answers

    def _accepts(self, taints: tuple[TaintKey, ...]) -> bool:
        return all(
            tolerated(Taint(key=key, value=value, effect=effect), self._tolerations)
            for key, value, effect in taints
            if effect in self._effects
        )


@lru_cache(maxsize=512)
def _taint_answers(
    sets: Interner[tuple[TaintKey, ...]], tolerations: tuple[Toleration, ...], effects: tuple[str, ...]
) -> _TaintAnswers:
    # Interned sets are never forgotten or changed, so remembering answers by id is safe.
    return _TaintAnswers(sets, tolerations, effects)
