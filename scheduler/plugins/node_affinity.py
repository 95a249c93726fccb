"""NodeAffinity: restricts pods to nodes with certain labels or names, and prefers such nodes.

Filter: ``spec.nodeSelector`` and the required terms of ``spec.affinity.nodeAffinity`` must both match. Refuses with
``node(s) didn't match Pod's node affinity/selector``. If the required terms name their nodes (``metadata.name``), only
those are searched. Score: the sum of the weights of the preferred terms that match.

Arguments: ``addedAffinity``, a node affinity that applies to all pods of the profile in addition to their own; its
refusal is ``node(s) didn't match scheduler-enforced node affinity``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any
from weakref import ref

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.node_matching import (
    accepted_rows,
    is_one_of_values,
    matches_required,
    matches_requirement,
    matches_selector,
    matches_term,
    required_in_steps,
    term_in_steps,
    term_pace,
    weights_of_values,
)
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.config.validators import int32
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.findings import Cause, RowArray, grouped, label_values
from scheduler.framework.plugin import (
    FilterPlugin,
    Finding,
    FragmentReads,
    NodeSubset,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    Scores,
    State,
    Verdicts,
)
from scheduler.framework.shortcuts import ExtremesScoringPlugin
from scheduler.framework.stepwise import PRE_FILTER, LookingPlugin
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable
from scheduler.objects.memo import MAX_PARTS, has_many_parts
from scheduler.objects.node import Node
from scheduler.objects.node_selectors import (
    NodeSelector,
    NodeSelectorTerm,
    PreferredTerm,
    RequiredNodeAffinity,
    parse_node_selector,
    parse_preferred_terms,
    preferred_score,
)
from scheduler.objects.pod import NodeAffinity as NodeAffinityFields
from scheduler.objects.requirements import Operator, Requirement
from scheduler.objects.selector_fields import NodeSelectorTermFields
from scheduler.objects.selectors import SelectorError
from scheduler.objects.steps import Steps, run_to_end
from scheduler.plugins.normalization import default_normalize, normalize_few

ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
OTHER_NODES = unresolvable("node(s) didn't match Pod's node affinity/selector")
TERMS_CONFLICT = unresolvable("pod affinity terms conflict")
_REFUSALS = (ENFORCED, OTHER_NODES)

ADDED = "the profile's addedAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinityArgs(msgspec.Struct, frozen=True, rename="camel"):
    added_affinity: NodeAffinityFields | None = None


class OfRows(Struct, frozen=True, eq=False):
    """A result for all rows of a table, computed in slices; valid while its nodes keep their labels."""

    column: npt.NDArray[Any]
    table: ref[NodeTable]
    labels_version: int

    def at(self, table: NodeTable, rows: Rows) -> npt.NDArray[Any] | None:
        """The result for these rows; None if labels have changed since."""
        is_valid = (
            self.table() is table and self.labels_version == table.labels_version and len(self.column) == table.size
        )
        return self.column[rows] if is_valid else None


class Requirements(Struct, State, frozen=True, eq=False):
    required: RequiredNodeAffinity
    accepted: OfRows | None = None


class Preferences(Struct, State, frozen=True, eq=False):
    terms: tuple[PreferredTerm, ...]
    scored: OfRows | None = None


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ExtremesScoringPlugin, LookingPlugin):
    """See docs/kube-scheduler/plugins.md §3.6."""

    name = "NodeAffinity"
    Args = NodeAffinityArgs
    reads = Reads.NODE
    fragment_reads = FragmentReads.TEMPLATE

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        super().__init__(args or NodeAffinityArgs())
        added: NodeAffinityFields | None = self.args.added_affinity
        self._added_required: NodeSelector | None = None
        self._added_preferred: tuple[PreferredTerm, ...] = ()
        self._has_added_preferences = added is not None and bool(added.preferred)
        if added is not None:
            if added.required is not None:
                self._added_required = parse_node_selector(added.required)
            self._added_preferred = parse_preferred_terms(added.preferred)

    @classmethod
    def validate_args(cls, args: NodeAffinityArgs, path: str) -> tuple[tuple[str, str], ...]:
        return tuple(_faults(args.added_affinity, f"{path}.addedAffinity")) if args.added_affinity is not None else ()

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        affinity = pod.pod.node_affinity
        return pod.required_node_affinity, affinity.preferred if affinity is not None else ()

    # --- filter -------------------------------------------------------------------------------------------------------

    def look_in_steps(self, point: str, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal] | None:
        affinity = pod.pod.node_affinity
        if affinity is None:
            return None
        if point == PRE_FILTER:
            terms = affinity.required.node_selector_terms if affinity.required is not None else ()
            return self._pre_filter_in_steps(pod, view) if _are_long(terms) else None
        preferred = [one.preference for one in affinity.preferred]
        return self._pre_score_in_steps(pod, view) if _are_long(preferred) else None

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        required = pod.required_node_affinity
        if required.is_everything and self._added_required is None:
            return SKIP
        return self._narrowed(Requirements(required))

    def _pre_filter_in_steps(self, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal]:
        table, required = view.table, pod.required_node_affinity
        accepted = yield from required_in_steps(table, required, view.rows)
        return self._narrowed(Requirements(required, OfRows(accepted, ref(table), table.labels_version)))

    @staticmethod
    def _narrowed(state: Requirements) -> State | Refusal:
        required = state.required
        names = required.selector.node_names if required.selector is not None else None
        if names is None:
            return state
        return NodeSubset(names, state) if names else TERMS_CONFLICT

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        table, of_pod = view.table, _of_pod(state, pod)
        accepted = of_pod.accepted.at(table, rows) if of_pod.accepted is not None else None
        if accepted is None:
            accepted = matches_required(table, of_pod.required, rows)
        codes = np.where(accepted, np.int16(0), np.int16(2))
        if self._added_required is not None:
            codes[~matches_selector(table, self._added_required, rows)] = 1
        return Verdicts(codes, _REFUSALS) if codes.any() else None

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        node = view.table.nodes[row]
        if node is None:
            return OTHER_NODES
        labels, name = node.metadata.labels, node.metadata.name
        if self._added_required is not None and not self._added_required.matches(labels, name):
            return ENFORCED
        return None if pod.accepts_node(labels, name) else OTHER_NODES

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        required, table = _of_pod(state, pod).required, view.table
        of_labels = (
            Cause(~matches_requirement(table, one, rows), partial(_unmet, table, "nodeSelector", one))
            for one in (Requirement(key, Operator.IN, (value,)) for key, value in required.labels)
        )
        selectors = ((required.selector, "required node affinity"), (self._added_required, ADDED))
        of_terms = [_unmet_terms(table, one, rows, called) for one, called in selectors if one is not None]
        return grouped(view, rows, chain(of_labels, *of_terms))

    # --- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        affinity = pod.pod.node_affinity
        written = affinity.preferred if affinity is not None else ()
        if not written and not self._has_added_preferences:
            return SKIP
        try:
            return Preferences(self._added_preferred + pod.preferred_node_terms)
        except SelectorError as error:
            return failure(str(error))

    def _pre_score_in_steps(self, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal]:
        state = self.pre_score(pod, view, view.rows)
        if not isinstance(state, Preferences):
            return state
        table = view.table
        scores = yield from _scores_in_steps(table, state.terms, view.rows)
        return Preferences(state.terms, OfRows(scores, ref(table), table.labels_version))

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        assert isinstance(state, Preferences)
        scores = state.scored.at(view.table, rows) if state.scored is not None else None
        return run_to_end(_scores_in_steps(view.table, state.terms, rows)) if scores is None else scores

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        assert isinstance(state, Preferences)
        node = view.table.nodes[row]
        return 0 if node is None else preferred_score(state.terms, node.metadata.labels, node.metadata.name)

    def score_few(self, state: State, pod: PodInfo, view: View, rows: Sequence[int]) -> list[int]:
        assert isinstance(state, Preferences)
        if not has_many_parts(state.terms):
            return super().score_few(state, pod, view, rows)
        scores: list[int] = run_to_end(_scores_in_steps(view.table, state.terms, np.array(rows, np.int64))).tolist()
        return scores

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        return default_normalize(scores)

    def normalize_few(self, raws: Sequence[int], lowest: int, highest: int) -> list[int]:
        return normalize_few(raws, highest)

    # --- events -------------------------------------------------------------------------------------------------------

    def events(self) -> tuple[EventRegistration, ...]:
        return (
            EventRegistration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._node_began_to_match
            ),
        )

    def _node_began_to_match(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        if new is None:
            return Hint.SKIP
        if self._added_required is not None and not self._added_required.matches(
            new.metadata.labels, new.metadata.name
        ):
            return Hint.SKIP
        try:
            if not pod.wants_node(new.metadata.labels, new.metadata.name):
                return Hint.SKIP
            # The profile's added affinity is not checked against the old node, as in kube-scheduler 1.36.
            had_matched = old is not None and pod.wants_node(old.metadata.labels, old.metadata.name)
        except SelectorError:
            return Hint.QUEUE
        return Hint.SKIP if had_matched else Hint.QUEUE


def _of_pod(state: State, pod: PodInfo) -> Requirements:
    """What ``pre_filter`` found; a profile may have left it out."""
    return state if isinstance(state, Requirements) else Requirements(pod.required_node_affinity)


def _are_long(terms: Sequence[NodeSelectorTermFields]) -> bool:
    return has_many_parts(terms) or sum([len(term.match_expressions) for term in terms]) > MAX_PARTS


def _scores_in_steps(table: NodeTable, terms: tuple[PreferredTerm, ...], rows: Rows) -> Steps[Scores]:
    """The sum of the weights of the terms that match, one a row."""
    pace = term_pace()
    scores = np.zeros(len(table.exists[rows]), np.int64)
    of_few = np.zeros(table.size, np.int64)
    of_values: dict[str, list[tuple[str, int]]] = {}
    for preferred in terms:
        few = accepted_rows(table, preferred.term)
        if few is not None:
            for row in few:
                of_few[row] += preferred.weight
        elif is_one_of_values(preferred.term):
            [part] = preferred.term.expressions
            of_values.setdefault(part.key, []).extend([(value, preferred.weight) for value in part.values])
        else:
            accepted = yield from term_in_steps(table, preferred.term, rows, pace)
            scores += accepted * np.int64(preferred.weight)
        if pace.is_over:
            yield from pace.pause()
    for key, weighted in of_values.items():
        scores += weights_of_values(table, key, weighted).take(table.label(key)[rows])
    return scores + of_few[rows]


def _unmet_terms(table: NodeTable, selector: NodeSelector, rows: RowArray, called: str) -> Iterator[Cause]:
    """What each term asks for in vain, on the rows that no term accepts."""
    refused = ~matches_selector(table, selector, rows)
    for number, term in enumerate(selector.terms, start=1):
        name = f"{called}, term {number}" if len(selector.terms) > 1 else called
        if term.faults:
            yield Cause(refused, partial(_invalid, name, term.faults[0]))
            continue
        for one in term.expressions:
            yield Cause(refused & ~matches_requirement(table, one, rows), partial(_unmet, table, name, one))
        for one in term.fields:
            alone = NodeSelectorTerm(fields=(one,))
            yield Cause(refused & ~matches_term(table, alone, rows), partial(_unmet_field, name, one))


def _unmet(table: NodeTable, name: str, one: Requirement, rows: RowArray) -> str:
    return f"{name} wants {one}: {label_values(table, one.key, rows)}"


def _unmet_field(name: str, one: Requirement, _rows: RowArray) -> str:
    return f"{name} wants {one}"


def _invalid(name: str, fault: str, _rows: RowArray) -> str:
    return f"{name} is invalid and matches no node: {fault}"


def _faults(added: NodeAffinityFields, path: str) -> Iterator[tuple[str, str]]:
    """The faults of ``addedAffinity``; here they are errors, while a pod's own invalid term just matches nothing."""
    if added.required is not None:
        for fault in parse_node_selector(added.required).faults:
            place, _, message = fault.partition(": ")
            yield f"{path}.{_REQUIRED}.{place}", message
    for index, term in enumerate(added.preferred):
        for found in int32(f"{path}.{_PREFERRED}[{index}].weight", term.weight):
            yield found.path, found.message
    try:
        parse_preferred_terms(added.preferred)
    except SelectorError as error:
        yield f"{path}.{_PREFERRED}", str(error)
