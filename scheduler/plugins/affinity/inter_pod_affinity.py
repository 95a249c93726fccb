"""InterPodAffinity: places pods near pods that they have affinity to, and away from those of their anti-affinity.

Implements ``podAffinity`` and ``podAntiAffinity``, required and preferred, of the pod to be placed; also the required
anti-affinity of the pods already placed, and their preferences, which count in the score.

Arguments: ``hardPodAffinityWeight`` (0 to 100, default 1): the weight in the score of a placed pod's *required*
affinity to the new pod. ``ignorePreferredTermsOfExistingPods`` (default false): pods without preferences of their own
are not scored.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
import numpy as np

from scheduler.cluster.affinity_terms import PlacedTerm, TermKind, terms_of
from scheduler.cluster.domains import DomainCounts, count_domains
from scheduler.cluster.pod_counts import NO_QUERY
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_terms import PodTerms
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.selector_index import Namespaces
from scheduler.cluster.view import View
from scheduler.config.field_faults import child
from scheduler.config.types import Int32
from scheduler.config.validators import in_range
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from scheduler.framework.findings import RowArray, grouped
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    Finding,
    FragmentReads,
    NormalizePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    Scores,
    State,
    Verdicts,
)
from scheduler.framework.stepwise import PRE_FILTER, LookingPlugin
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable, unschedulable
from scheduler.objects.kinds import Kind
from scheduler.objects.selectors import Selector
from scheduler.objects.steps import Steps, run_to_end
from scheduler.plugins.affinity.evidence import causes
from scheduler.plugins.affinity.hints import KEYS_OF_PODS, facet_of_pod, node_changed, pod_changed
from scheduler.plugins.affinity.long_terms import is_long, new_pace, preferred_in_steps, required_in_steps
from scheduler.plugins.affinity.state import AffinityFilterState, AffinityRowState, AffinityScoreState
from scheduler.plugins.affinity.terms import OwnTerm, namespace_labels, resolve

# In the order of the codes of AffinityFilterState.
REFUSALS = (
    unresolvable("node(s) didn't match pod affinity rules"),
    unschedulable("node(s) didn't match pod anti-affinity rules"),
    unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
)

_EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        pod_changed,
        facet_of_pod,
        KEYS_OF_PODS,
    ),
    EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), node_changed),
)

_WEIGHT_RANGE = (0, 100)


class InterPodAffinityArgs(msgspec.Struct, frozen=True, rename="camel"):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class _Fragment(msgspec.Struct, frozen=True, gc=False):
    """Ids of the queries of the pod's own terms, and of the placed terms that match it, instead of its labels."""

    own: Hashable
    query_ids: tuple[int, ...]
    term_ids: tuple[int, ...]


_NOTHING = _Fragment((), (), ())


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, NormalizePlugin, LookingPlugin):
    """See docs/kube-scheduler/plugins.md §3.11."""

    name = "InterPodAffinity"
    Args = InterPodAffinityArgs
    reads = Reads.NODE
    fragment_reads = FragmentReads.CLUSTER

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        super().__init__(args or InterPodAffinityArgs())
        self._hard_weight: int = self.args.hard_pod_affinity_weight
        self._ignores_preferences: bool = self.args.ignore_preferred_terms_of_existing_pods

    @classmethod
    def validate_args(cls, args: InterPodAffinityArgs, path: str) -> tuple[tuple[str, str], ...]:
        faults = in_range(
            child(path, "hardPodAffinityWeight"),
            args.hard_pod_affinity_weight,
            *_WEIGHT_RANGE,
            "not in valid range [0, 100]",
        )
        return tuple((fault.path, fault.message) for fault in faults)

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS

    # --- what the answers depend on -----------------------------------------------------------------------------------

    def fragment(self, pod: PodInfo, view: View) -> _Fragment:
        terms = terms_of(pod)
        placed = tuple([term.id for term in _placed_terms(pod, view)])
        if not terms.affinity and not terms.anti_affinity and not terms.preferred:
            if not placed and not terms.faults:
                return _NOTHING
            return _Fragment(terms.faults, (), placed)
        if is_long(terms):
            # What its own terms match is counted in each attempt.
            itself = (pod.namespace, frozenset(pod.labels.items())) if terms.affinity else None
            return _Fragment((itself, terms), (NO_QUERY,), placed)
        own = resolve(terms, view)
        intern = view.pod_counts.intern
        ids: list[int] = []
        if own.affinity:
            ids.append(intern(own.affinity_namespaces, own.affinity_selector))
        others = [*own.anti_affinity, *[term for term, _ in own.preferred]]
        ids += [intern(term.namespaces, term.selector) for term in others]
        shape = (
            tuple([term.topology_key for term in own.affinity]),
            all(term.matches(pod.namespace, pod.labels) for term in own.affinity),
            tuple([term.topology_key for term in own.anti_affinity]),
            tuple([(term.topology_key, weight) for term, weight in own.preferred]),
            terms.faults,
        )
        return _Fragment(shape, tuple(ids), placed)

    def fragment_stamp(self, view: View) -> Hashable:
        return view.affinity_terms.terms_version, view.pod_counts.evictions, view.version(Kind.NAMESPACE)

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        assert isinstance(fragment, _Fragment)
        if not fragment.query_ids and not fragment.term_ids:
            return ()
        query_version = view.pod_counts.version
        term_version = view.affinity_terms.term_version
        return (
            view.table.node_version,
            view.version(Kind.NAMESPACE),
            tuple([query_version(query_id) for query_id in fragment.query_ids]),
            tuple([term_version(term_id) for term_id in fragment.term_ids]),
        )

    # --- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        terms = terms_of(pod)
        if is_long(terms):
            return run_to_end(self._pre_filter_in_steps(pod, view))
        if terms.faults:
            return unresolvable(f"parsing pod: {_aggregated(terms)}")
        table = view.table
        existing = _existing(pod, view)
        if not existing and not terms.affinity and not terms.anti_affinity:
            return SKIP
        own = resolve(terms, view)
        affinity: dict[str, DomainCounts] = {}
        if own.affinity:
            counts = _counts(own.affinity_namespaces, own.affinity_selector, view)
            for own_term in own.affinity:
                _add(affinity, own_term.topology_key, count_domains(table, own_term.topology_key, counts))
        anti_affinity: dict[str, DomainCounts] = {}
        for own_term in own.anti_affinity:
            _add(anti_affinity, own_term.topology_key, _domains_of(own_term, view))
        return AffinityFilterState(pod, namespace_labels(view, pod.namespace), own, affinity, anti_affinity, existing)

    def _pre_filter_in_steps(self, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal]:
        terms = terms_of(pod)
        if terms.faults:
            return unresolvable(f"parsing pod: {_aggregated(terms)}")
        existing = _existing(pod, view)
        if not existing and not terms.affinity and not terms.anti_affinity:
            return SKIP
        own, affinity, anti_affinity = yield from required_in_steps(terms, view)
        return AffinityFilterState(pod, namespace_labels(view, pod.namespace), own, affinity, anti_affinity, existing)

    def look_in_steps(self, point: str, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal] | None:
        if not is_long(terms_of(pod)):
            return None
        return self._pre_filter_in_steps(pod, view) if point == PRE_FILTER else self._pre_score_in_steps(pod, view)

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, AffinityFilterState)
        codes = state.codes(view.table, rows)
        return Verdicts(codes, REFUSALS) if codes.any() else None

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        assert isinstance(state, AffinityFilterState | AffinityRowState)
        code = state.code(view.table, row)
        return REFUSALS[code - 1] if code else None

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        assert isinstance(state, AffinityFilterState)

        are_many = is_long(terms_of(pod))

        def counted(term: OwnTerm) -> RowCounts:
            if are_many:
                return run_to_end(view.pod_counts.count_in_steps(term.namespaces, term.selector, new_pace()))
            return _counts(term.namespaces, term.selector, view)

        return grouped(view, rows, causes(state, view, rows, counted))

    # --- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        terms = terms_of(pod)
        if is_long(terms):
            return run_to_end(self._pre_score_in_steps(pod, view))
        if terms.faults:
            return failure(f"failed to parse pod: {_aggregated(terms)}")
        if self._ignores_preferences and not terms.preferred:
            return SKIP
        sums: dict[str, DomainCounts] = {}
        for own_term, weight in resolve(terms, view).preferred:
            found = _domains_of(own_term, view)
            # The plugin scores if any term holds somewhere, even if the weights cancel out.
            if found.any():
                _add(sums, own_term.topology_key, found * weight, even_zero=True)
        return self._with_placed_terms(sums, pod, view)

    def _pre_score_in_steps(self, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal]:
        terms = terms_of(pod)
        if terms.faults:
            return failure(f"failed to parse pod: {_aggregated(terms)}")
        if self._ignores_preferences and not terms.preferred:
            return SKIP
        sums = yield from preferred_in_steps(terms, view)
        return self._with_placed_terms(sums, pod, view)

    def _with_placed_terms(self, sums: dict[str, DomainCounts], pod: PodInfo, view: View) -> State | Skip:
        table = view.table
        for placed in _placed_terms(pod, view):
            if placed.kind is TermKind.PREFERRED:
                found = placed.by_value(table)
                weighted = placed.weight_by_value(table)
            elif placed.kind is TermKind.REQUIRED_AFFINITY and self._hard_weight > 0:
                found = placed.by_value(table)
                weighted = found * self._hard_weight
            else:
                continue
            if found.any():
                _add(sums, placed.term.topology_key, weighted, even_zero=True)
        return AffinityScoreState(sums) if sums else SKIP

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        assert isinstance(state, AffinityScoreState)
        return state.scores(view.table, rows)

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        assert isinstance(state, AffinityScoreState)
        return state.score(view.table, row)

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        if not len(scores):
            return scores
        lowest, highest = int(scores.min()), int(scores.max())
        if lowest == highest:
            return np.zeros(len(scores), np.int64)
        # In floating point and in this order: integer arithmetic gives one more for some pairs.
        shares = float(MAX_NODE_SCORE) * ((scores - lowest).astype(np.float64) / float(highest - lowest))
        return shares.astype(np.int64)


def _existing(pod: PodInfo, view: View) -> dict[str, DomainCounts]:
    """The required anti-affinity terms of placed pods that match this one, by domain."""
    existing: dict[str, DomainCounts] = {}
    for term in _placed_terms(pod, view):
        if term.kind is TermKind.REQUIRED_ANTI_AFFINITY:
            _add(existing, term.term.topology_key, term.by_value(view.table))
    return existing


def _placed_terms(pod: PodInfo, view: View) -> list[PlacedTerm]:
    terms = view.affinity_terms
    if not len(terms):
        return []
    return terms.matching(pod.namespace, pod.labels, namespace_labels(view, pod.namespace))


def _counts(namespaces: Namespaces, selector: Selector, view: View) -> RowCounts:
    return view.pod_counts.tally(view.pod_counts.intern(namespaces, selector))


def _domains_of(term: OwnTerm, view: View) -> DomainCounts:
    """The number of pods that match the term, by domain."""
    return count_domains(view.table, term.topology_key, _counts(term.namespaces, term.selector, view))


def _add(domains: dict[str, DomainCounts], key: str, more: DomainCounts, *, even_zero: bool = False) -> None:
    if not even_zero and not more.any():
        return
    known = domains.get(key)
    domains[key] = more if known is None else known + more


def _aggregated(terms: PodTerms) -> str:
    faults = terms.faults
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
