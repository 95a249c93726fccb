"""PodTopologySpread: spreads the pods of a workload over zones, nodes, or any other topology label of nodes.

Implements ``topologySpreadConstraints``: those with ``DoNotSchedule`` filter nodes, those with ``ScheduleAnyway`` score
them. Pods that are being deleted do not count. Pods without constraints of their own get default ones if they belong to
a Service, ReplicationController, ReplicaSet or StatefulSet.

Arguments: ``defaultingType``: ``System`` (the default: over nodes and zones, as a preference) or ``List``;
``defaultConstraints``: with ``List``, constraints without a ``labelSelector``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import msgspec

from scheduler.cluster.pod_counts import NO_QUERY
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, HintKeys, Resource
from scheduler.framework.findings import RowArray, grouped
from scheduler.framework.plugin import (
    Finding,
    FragmentReads,
    PreScorePlugin,
    Reads,
    Rows,
    ScopedPlugin,
    Scores,
    State,
    Verdicts,
)
from scheduler.framework.shortcuts import ByValue, CountingPlugin, Fitting, GroupScores, GroupScoringPlugin
from scheduler.framework.stepwise import PRE_FILTER, LookingPlugin
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable, unschedulable
from scheduler.objects.memo import has_many_parts
from scheduler.objects.selectors import EVERYTHING, Selector, SelectorError
from scheduler.objects.steps import Steps, run_to_end
from scheduler.plugins.spread.args import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    SYSTEM_CONSTRAINTS,
    PodTopologySpreadArgs,
    args_faults,
)
from scheduler.plugins.spread.constraints import (
    Constraint,
    are_long,
    default_constraints,
    eligibility_of,
    own_constraints,
    parse_in_steps,
)
from scheduler.plugins.spread.evidence import causes
from scheduler.plugins.spread.groups import grouped_scores, scores_again
from scheduler.plugins.spread.hints import SpreadHints, facet_of_pod, keys_offered
from scheduler.plugins.spread.owners import SELECTING_KINDS
from scheduler.plugins.spread.recount import version_of_nodes
from scheduler.plugins.spread.state import (
    SpreadFilterState,
    SpreadScoreState,
    filter_state,
    hard_constraints_in_steps,
    normalized,
    score_state,
)

_UNEVEN = "node(s) didn't match pod topology spread constraints"

# In the order of the codes of SpreadFilterState.
REFUSALS = (
    unresolvable(f"{_UNEVEN} (missing required label)"),
    unschedulable(_UNEVEN),
)

_POD_ACTIONS = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE
_NODE_ACTIONS = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT


class _Fragment(msgspec.Struct, frozen=True, gc=False):
    """Ids of the constraints' queries and their other fields, instead of the pod's labels."""

    query_ids: tuple[int, ...]
    honors_taints: bool
    constraints: Hashable
    faults: tuple[str, str] = ("", "")


_NOTHING = _Fragment((), False, ())


class PodTopologySpread(ScopedPlugin, CountingPlugin, PreScorePlugin, GroupScoringPlugin, LookingPlugin):
    """See docs/kube-scheduler/plugins.md §3.12."""

    name = "PodTopologySpread"
    needs_pre_filter = True
    Args = PodTopologySpreadArgs
    reads = Reads.NODE | Reads.FEASIBLE
    fragment_reads = FragmentReads.CLUSTER
    comparison_operators: ClassVar[bool] = False
    reads_label_keys: ClassVar[bool] = True

    def __init__(self, args: PodTopologySpreadArgs | None = None, node_scope: Selector = EVERYTHING) -> None:
        super().__init__(args or PodTopologySpreadArgs(), node_scope)
        self._is_system_defaulted = self.args.is_system_defaulted
        self._defaults = SYSTEM_CONSTRAINTS if self._is_system_defaulted else self.args.default_constraints

    @classmethod
    def validate_args(cls, args: PodTopologySpreadArgs, path: str) -> tuple[tuple[str, str], ...]:
        return tuple((fault.path, fault.message) for fault in args_faults(args, path))

    def events(self) -> tuple[EventRegistration, ...]:
        defaults = tuple(one for one in self._defaults if one.when_unsatisfiable == DO_NOT_SCHEDULE)
        hints = SpreadHints(defaults, self.node_scope, self.reads_label_keys)
        return (
            EventRegistration(
                ClusterEvent(Resource.POD, _POD_ACTIONS),
                hints.pod_changed,
                facet_of_pod,
                HintKeys(hints.keys_wanted, keys_offered),
            ),
            EventRegistration(ClusterEvent(Resource.NODE, _NODE_ACTIONS), hints.node_changed),
        )

    def _constraints(self, pod: PodInfo, action: str, view: View) -> tuple[Constraint, ...]:
        """The pod's own or default constraints with this action. Raises SelectorError."""
        if pod.pod.spec.topology_spread_constraints:
            return own_constraints(pod, action, reads_label_keys=self.reads_label_keys)
        return default_constraints(self._defaults, action, pod, view)

    def _requires_all_keys(self, pod: PodInfo) -> bool:
        """Whether nodes that lack the key of a soft constraint are not scored."""
        return bool(pod.pod.spec.topology_spread_constraints) or not self._is_system_defaulted

    # --- what the answers depend on -----------------------------------------------------------------------------------

    def fragment(self, pod: PodInfo, view: View) -> _Fragment:
        found: list[tuple[Constraint, ...]] = []
        faults: list[str] = []
        for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
            try:
                found.append(self._constraints(pod, action, view))
                faults.append("")
            except SelectorError as error:
                found.append(())
                faults.append(str(error))
        hard, soft = found
        constraints = hard + soft
        if not constraints:
            return _NOTHING if not any(faults) else _Fragment((), False, (), (faults[0], faults[1]))
        namespace = frozenset((pod.namespace,))
        intern = view.pod_counts.intern
        said = tuple(
            [
                (
                    one.topology_key,
                    one.max_skew,
                    one.min_domains,
                    one.honors_affinity,
                    one.honors_taints,
                    one.selector.matches(pod.labels),
                )
                for one in constraints
            ]
        )
        eligibility = eligibility_of(pod, self.comparison_operators, self.node_scope)
        is_own = bool(pod.pod.spec.topology_spread_constraints)
        is_long = has_many_parts(constraints)
        honors_taints = any(one.honors_taints for one in constraints)
        return _Fragment(
            # Counted in each attempt: very many constraints get no counters of their own.
            (NO_QUERY,) if is_long else tuple([intern(namespace, one.selector) for one in constraints]),
            honors_taints,
            (
                len(hard),
                is_own,
                said,
                eligibility.required if any(one.honors_affinity for one in constraints) else None,
                eligibility.tolerations if honors_taints else None,
                (pod.namespace, tuple([one.selector for one in constraints])) if is_long else None,
            ),
            (faults[0], faults[1]),
        )

    def fragment_stamp(self, view: View) -> Hashable:
        return view.pod_counts.evictions, *map(view.objects.version, SELECTING_KINDS)

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        assert isinstance(fragment, _Fragment)
        if not fragment.query_ids:
            return ()
        version, table = view.pod_counts.version, view.table
        nodes = version_of_nodes(table, honors_taints=fragment.honors_taints)
        return nodes, table.size, tuple([version(query_id) for query_id in fragment.query_ids])

    # --- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        try:
            constraints = self._constraints(pod, DO_NOT_SCHEDULE, view)
        except SelectorError as error:
            return failure(f"obtaining pod's hard topology spread constraints: {error}")
        if not constraints:
            return SKIP
        eligibility = eligibility_of(pod, self.comparison_operators, self.node_scope)
        if has_many_parts(constraints):
            return run_to_end(self._pre_filter_in_steps(constraints, pod, view))
        return filter_state(constraints, eligibility, pod, view)

    def recounted(self, state: State, pod: PodInfo, view: View) -> State | None:
        assert isinstance(state, SpreadFilterState)
        return state.recounted(view)

    def _pre_filter_in_steps(
        self, constraints: tuple[Constraint, ...], pod: PodInfo, view: View
    ) -> Steps[State | Skip | Refusal]:
        eligibility = eligibility_of(pod, self.comparison_operators, self.node_scope)
        hard = yield from hard_constraints_in_steps(constraints, eligibility, pod, view)
        return SpreadFilterState(pod.namespace, eligibility, hard)

    def read_in_steps(self, pod: PodInfo) -> Steps[None] | None:
        return parse_in_steps(pod, reads_label_keys=self.reads_label_keys) if are_long(pod) else None

    def look_in_steps(self, point: str, pod: PodInfo, view: View) -> Steps[State | Skip | Refusal] | None:
        if point != PRE_FILTER or not has_many_parts(pod.pod.spec.topology_spread_constraints):
            return None
        constraints = own_constraints(pod, DO_NOT_SCHEDULE, reads_label_keys=self.reads_label_keys)
        return self._pre_filter_in_steps(constraints, pod, view) if has_many_parts(constraints) else None

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, SpreadFilterState)
        codes = state.codes(view.table, rows)
        return Verdicts(codes, REFUSALS) if codes.any() else None

    def filter_by_value(self, state: State, view: View) -> ByValue | None:
        assert isinstance(state, SpreadFilterState)
        found = state.codes_by_value(view.table)
        return None if found is None else ByValue(*found, REFUSALS)

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        assert isinstance(state, SpreadFilterState)
        code = state.code(view.table, row)
        return REFUSALS[code - 1] if code else None

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        assert isinstance(state, SpreadFilterState)
        return grouped(view, rows, causes(state, view.table, rows))

    # --- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        try:
            constraints = self._constraints(pod, SCHEDULE_ANYWAY, view)
        except SelectorError as error:
            return failure(f"calculating preScoreState: obtaining pod's soft topology spread constraints: {error}")
        if not constraints:
            return SKIP
        eligibility = eligibility_of(pod, self.comparison_operators, self.node_scope)
        return score_state(constraints, eligibility, self._requires_all_keys(pod), pod, view, rows)

    def score_by_group(
        self, before: State | GroupScores, pod: PodInfo, view: View, fitting: Fitting
    ) -> GroupScores | None:
        found = scores_again(before, view, fitting) if isinstance(before, GroupScores) else None
        if found is not None:
            return found
        try:
            constraints = self._constraints(pod, SCHEDULE_ANYWAY, view)
        except SelectorError:
            return None
        eligibility = eligibility_of(pod, self.comparison_operators, self.node_scope)
        return grouped_scores(constraints, eligibility, self._requires_all_keys(pod), pod, view, fitting)

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        assert isinstance(state, SpreadScoreState)
        return state.scores(view.table, rows)

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        assert isinstance(state, SpreadScoreState)
        ignored = None if state.ignored is None else state.ignored[rows]
        normal = normalized(scores, scores if ignored is None else scores[~ignored])
        if ignored is not None:
            normal[ignored] = 0
        return normal


class ComparingPodTopologySpread(PodTopologySpread):
    """With the gate TaintTolerationComparisonOperators: tolerations count with their operators Gt and Lt."""

    comparison_operators = True


class KeylessPodTopologySpread(PodTopologySpread):
    """Without the gate MatchLabelKeysInPodTopologySpread: ``matchLabelKeys`` of constraints are ignored."""

    reads_label_keys = False
