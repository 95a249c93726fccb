"""TaintToleration: keeps pods off nodes whose taints they do not tolerate.

Filter: a taint with the effect NoSchedule or NoExecute keeps a pod away unless one of its ``spec.tolerations`` covers
it. Refuses with ``node(s) had untolerated taint(s)``. Score: the fewer PreferNoSchedule taints of a node are not
tolerated, the better; without such taints every node gets the full score. The operators ``Gt`` and ``Lt`` of a
toleration compare integers; they match nothing unless the gate TaintTolerationComparisonOperators is on. No arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from msgspec import Struct

from scheduler.cluster.interning import ABSENT
from scheduler.cluster.node_matching import Mask, tolerated_taint_sets
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.cluster.vocabulary import TaintKey
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, only_itself
from scheduler.framework.findings import Cause, RowArray, grouped
from scheduler.framework.plugin import (
    FilterPlugin,
    Finding,
    FragmentReads,
    PreScorePlugin,
    Reads,
    Rows,
    Scores,
    State,
    Verdicts,
)
from scheduler.framework.shortcuts import ExtremesScoringPlugin
from scheduler.messages.status import Refusal, Skip, unresolvable
from scheduler.objects.memo import has_many_parts
from scheduler.objects.node import Node, Taint
from scheduler.objects.pod import Toleration
from scheduler.objects.taints import (
    PREFER_NO_SCHEDULE,
    TolerationIndex,
    count_intolerable_preferences,
    first_untolerated_taint,
    preference_tolerations,
    repels,
)
from scheduler.plugins.normalization import default_normalize, normalize_few

UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")
_REFUSALS = (UNTOLERATED,)


class PreferenceTolerations(Struct, State, frozen=True):
    """The tolerations that can matter for PreferNoSchedule taints."""

    tolerations: TolerationIndex


class TaintToleration(FilterPlugin, PreScorePlugin, ExtremesScoringPlugin):
    """See docs/kube-scheduler/plugins.md §3.5."""

    name = "TaintToleration"
    reads = Reads.NODE
    fragment_reads = FragmentReads.TEMPLATE
    comparison_operators: ClassVar[bool] = False

    def fragment(self, pod: PodInfo, view: View) -> tuple[Toleration, ...]:
        return pod.pod.spec.tolerations

    # --- filter -------------------------------------------------------------------------------------------------------

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        table = view.table
        tolerated_sets = self._tolerated_sets(pod, view)
        if tolerated_sets.all():
            return None
        codes = (~tolerated_sets).astype(np.int16).take(table.taint_set[rows])
        return Verdicts(codes, _REFUSALS) if codes.any() else None

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        table = view.table
        taint_set = table.taint_set.item(row)
        if taint_set == ABSENT or self._tolerated_sets(pod, view).item(taint_set):
            return None
        return UNTOLERATED

    def _tolerated_sets(self, pod: PodInfo, view: View) -> Mask:
        tolerations = pod.pod.spec.tolerations
        return tolerated_taint_sets(view.table, tolerations, comparison_operators=self.comparison_operators)

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        taint_sets = view.table.taint_set[rows]
        tolerations = TolerationIndex(pod.pod.spec.tolerations, comparison_operators=self.comparison_operators)
        with_taint: dict[Taint, list[int]] = {}
        for taint_set in np.unique(taint_sets).tolist():
            for key, value, effect in view.table.vocabulary.taints.values[taint_set] or ():
                taint = Taint(key=key, value=value, effect=effect)
                if repels(taint) and not tolerations.tolerates(taint):
                    with_taint.setdefault(taint, []).append(taint_set)
        return grouped(
            view,
            rows,
            [Cause(np.isin(taint_sets, sets), partial(_untolerated, taint)) for taint, sets in with_taint.items()],
        )

    # --- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        relevant = preference_tolerations(pod.pod.spec.tolerations)
        return PreferenceTolerations(TolerationIndex(relevant, comparison_operators=self.comparison_operators))

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        assert isinstance(state, PreferenceTolerations)
        table = view.table
        by_set = [self._intolerable(taints or (), state.tolerations) for taints in table.vocabulary.taints.values]
        taint_sets = table.taint_set[rows]
        if not any(by_set):
            return np.zeros(len(taint_sets), np.int64)
        return np.array(by_set, np.int64).take(taint_sets)

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        assert isinstance(state, PreferenceTolerations)
        table = view.table
        taint_set = table.taint_set.item(row)
        taints = table.vocabulary.taints.values[taint_set] or ()
        return self._intolerable(taints, state.tolerations) if taint_set else 0

    @staticmethod
    def _intolerable(taints: tuple[TaintKey, ...], tolerations: TolerationIndex) -> int:
        """The number of PreferNoSchedule taints of a set that are not tolerated."""
        preferences = [
            Taint(key=key, value=value, effect=effect) for key, value, effect in taints if effect == PREFER_NO_SCHEDULE
        ]
        return count_intolerable_preferences(preferences, tolerations) if preferences else 0

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        return default_normalize(scores, reverse=True)

    def normalize_few(self, raws: Sequence[int], lowest: int, highest: int) -> list[int]:
        return normalize_few(raws, highest, reverse=True)

    # --- events -------------------------------------------------------------------------------------------------------

    def events(self) -> tuple[EventRegistration, ...]:
        return (
            EventRegistration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self._node_became_tolerable
            ),
            EventRegistration(
                ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION), _own_tolerations_changed, only_itself
            ),
        )

    def _node_became_tolerable(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        was_refused = old is None or self._refuses(pod, old)
        is_tolerated = new is not None and not self._refuses(pod, new)
        return Hint.QUEUE if was_refused and is_tolerated else Hint.SKIP

    def _refuses(self, pod: PodInfo, node: Node) -> bool:
        with_numbers = self.comparison_operators
        tolerations: tuple[Toleration, ...] | TolerationIndex = pod.pod.spec.tolerations
        if has_many_parts(tolerations):
            tolerations = pod.tolerations(comparison_operators=with_numbers)
        return first_untolerated_taint(node.spec.taints, tolerations, comparison_operators=with_numbers) is not None


class ComparingTaintToleration(TaintToleration):
    """With the gate TaintTolerationComparisonOperators."""

    comparison_operators = True


def _untolerated(taint: Taint, _rows: RowArray) -> str:
    return f"does not tolerate the taint {taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"


def _own_tolerations_changed(pod: PodInfo, _old: PodInfo | None, new: PodInfo | None) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == pod.uid else Hint.SKIP
