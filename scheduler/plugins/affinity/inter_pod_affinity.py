"""InterPodAffinity: places pods near pods that they have affinity to, and away from those of their anti-affinity.

Implements ``podAffinity`` and ``podAntiAffinity``, required and preferred, of the pod to be placed; also the required
anti-affinity of the pods already placed, and their preferences, which count in the score.

Arguments: ``hardPodAffinityWeight`` (0 to 100, default 1): the weight in the score of a placed pod's *required*
affinity to the new pod. ``ignorePreferredTermsOfExistingPods`` (default false): pods without preferences of their own
are not scored.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import msgspec
import numpy as np

from scheduler.cluster.affinity_terms import PlacedTerm, TermKind, terms_of
from scheduler.cluster.domains import DomainCounts, count_domains, widened
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
    Finding,
    FragmentReads,
    PreScorePlugin,
    Reads,
    Rows,
    Scores,
    State,
    Verdicts,
)
from scheduler.framework.shortcuts import (
    MAX_GROUPS,
    ByValue,
    ChangedRows,
    CountingPlugin,
    ExtremesScoringPlugin,
    Fitting,
    GroupScores,
    GroupScoringPlugin,
)
from scheduler.framework.stepwise import PRE_FILTER, LookingPlugin
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable, unschedulable
from scheduler.objects.kinds import Kind
from scheduler.objects.selectors import Selector
from scheduler.objects.steps import Steps, run_to_end
from scheduler.plugins.affinity.evidence import causes
from scheduler.plugins.affinity.hints import KEYS_OF_PODS, facet_of_pod, node_changed, pod_changed
from scheduler.plugins.affinity.long_terms import is_long, new_pace, preferred_in_steps, required_in_steps
from scheduler.plugins.affinity.recount import Source, filter_sources, query_source, sources_in, term_source
from scheduler.plugins.affinity.state import AffinityFilterState, AffinityRowState, AffinityScoreState
from scheduler.plugins.affinity.terms import OwnTerm, OwnTerms, namespace_labels, resolve

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


class InterPodAffinity(CountingPlugin, PreScorePlugin, GroupScoringPlugin, ExtremesScoringPlugin, LookingPlugin):
    """See docs/kube-scheduler/plugins.md §3.11."""

    name = "InterPodAffinity"
    needs_pre_filter = True
    reads_lowest = True
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
            # Counted in each attempt: very many terms get no counters of their own.
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
            view.table.labels_version,
            view.table.size,
            view.version(Kind.NAMESPACE),
            tuple([query_version(query_id) for query_id in fragment.query_ids]),
            tuple([term_version(term_id) for term_id in fragment.term_ids]),
            # Pods of one class may differ in labels that no term distinguishes, and the state has the labels of one of
            # them. A new term may distinguish them.
            view.affinity_terms.terms_version,
        )

    # --- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        terms = terms_of(pod)
        if is_long(terms):
            return run_to_end(self._pre_filter_in_steps(pod, view))
        if terms.faults:
            return unresolvable(f"parsing pod: {_aggregated(terms)}")
        table = view.table
        placed = _placed_terms(pod, view)
        existing = _existing(placed, view)
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
        state = AffinityFilterState(pod, namespace_labels(view, pod.namespace), own, affinity, anti_affinity, existing)
        state.sources = filter_sources(own, placed, view)
        return state

    def recounted(self, state: State, pod: PodInfo, view: View) -> State | None:
        assert isinstance(state, AffinityFilterState)
        return state.recounted(pod, view)

    def _pre_filter_in_steps(self, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal]:
        terms = terms_of(pod)
        if terms.faults:
            return unresolvable(f"parsing pod: {_aggregated(terms)}")
        existing = _existing(_placed_terms(pod, view), view)
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

    def filter_by_value(self, state: State, view: View) -> ByValue | None:
        assert isinstance(state, AffinityFilterState)
        found = state.codes_by_value(view.table)
        return None if found is None else ByValue(*found, REFUSALS)

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
        own = resolve(terms, view)
        for own_term, weight in own.preferred:
            found = _domains_of(own_term, view)
            # The plugin scores if any term holds somewhere, even if the weights cancel out.
            if found.any():
                _add(sums, own_term.topology_key, found * weight, even_zero=True)
        return self._with_placed_terms(sums, pod, view, own)

    def _pre_score_in_steps(self, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal]:
        terms = terms_of(pod)
        if terms.faults:
            return failure(f"failed to parse pod: {_aggregated(terms)}")
        if self._ignores_preferences and not terms.preferred:
            return SKIP
        sums = yield from preferred_in_steps(terms, view)
        return self._with_placed_terms(sums, pod, view)

    def _with_placed_terms(
        self, sums: dict[str, DomainCounts], pod: PodInfo, view: View, own: OwnTerms | None = None
    ) -> State | Skip:
        """``own``: the pod's own terms, if their sums may be brought up to date later."""
        table = view.table
        terms: list[Source] = []
        for placed in _placed_terms(pod, view):
            if placed.kind is TermKind.PREFERRED:
                found = placed.by_value(table)
                weighted = placed.weight_by_value(table)
                terms.append(term_source(placed, None))
            elif placed.kind is TermKind.REQUIRED_AFFINITY and self._hard_weight > 0:
                found = placed.by_value(table)
                weighted = found * self._hard_weight
                terms.append(term_source(placed, self._hard_weight))
            else:
                continue
            if found.any():
                _add(sums, placed.term.topology_key, weighted, even_zero=True)
        if not sums:
            return SKIP
        if own is None:
            return AffinityScoreState(sums)
        others = [
            query_source(view, term.namespaces, term.selector, (term.topology_key,), weight)
            for term, weight in own.preferred
        ]
        return AffinityScoreState(sums, sources_in(view).with_sources((), others, terms))

    def score_by_group(
        self, before: State | GroupScores, pod: PodInfo, view: View, fitting: Fitting
    ) -> GroupScores | ChangedRows | State | Skip | None:
        """The nodes with one value of the topology key, where there is only one key, score alike; but where no two
        nodes share a value of any key, it is known which of them score otherwise than before."""
        was = before.state if isinstance(before, GroupScores) else before
        assert isinstance(was, AffinityScoreState)
        if was.sources is None:
            return None
        state: State | Skip | Refusal | None = was.recounted(view)
        same = before if isinstance(before, GroupScores) and state is not None else None
        if state is None:
            state = self.pre_score(pod, view, view.rows)
        if isinstance(state, Refusal):
            return None
        if not isinstance(state, AffinityScoreState):
            return state
        if state.changed_rows is not None:
            return ChangedRows(state, state.changed_rows)
        table = view.table
        key, sums = next(iter(state.sums.items()))
        width = len(table.label_values(key))
        if len(state.sums) > 1 or width > MAX_GROUPS or table.has_unique_labels(key):
            return state
        ids = table.label(key)
        members = None if same is None else same.members_now(fitting)
        if members is None:
            members = fitting.members(ids, width)
        finals = np.zeros(width, np.int64)
        is_present = members > 0
        finals[is_present] = self.normalize(state, widened(sums, table, key)[is_present], view, view.rows)
        return GroupScores(state, ids, finals, members, fitting.version, None if same is None else ())

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

    def normalize_few(self, raws: Sequence[int], lowest: int, highest: int) -> list[int]:
        if lowest == highest:
            return [0] * len(raws)
        return [int(float(MAX_NODE_SCORE) * (float(raw - lowest) / float(highest - lowest))) for raw in raws]


def _existing(placed: Iterable[PlacedTerm], view: View) -> dict[str, DomainCounts]:
    """The required anti-affinity terms among these of placed pods, by domain."""
    existing: dict[str, DomainCounts] = {}
    for term in placed:
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
