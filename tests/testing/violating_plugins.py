"""Plugins that break the contract, each in one way, with the rule that must catch them."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.per_node import NodeView, PerNodeScore
from scheduler.framework.plugin import (
    EMPTY_STATE,
    FilterPlugin,
    NormalizePlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
    State,
    Verdicts,
)
from scheduler.messages.status import Refusal, unschedulable
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node

NO = unschedulable("no")


def codes_of(view: Any, rows: Rows, is_refused: Any) -> Verdicts:
    listed = range(view.table.size) if isinstance(rows, slice) else rows.tolist()
    return Verdicts(np.array([int(bool(is_refused(view, row))) for row in listed], np.int16), (NO,))


class Honest(FilterPlugin):
    """Refuses cordoned nodes; the others here refuse something else, or say so wrongly."""

    name = "Honest"
    reads = Reads.NODE

    def fragment(self, pod: Any, view: Any) -> Any:
        return 0

    def is_refused(self, pod: Any, view: Any, row: int) -> bool:
        return bool(view.table.unschedulable[row])

    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts | None:
        return codes_of(view, rows, lambda view, row: self.is_refused(pod, view, row))


class NoFilter(FilterPlugin):
    name = "NoFilter"


class DeclaresWithoutFragment(Honest):
    fragment = Plugin.fragment


class CodeOutOfRange(Honest):
    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts:
        return Verdicts(np.full(len(view.table.exists[rows]), 2, np.int16), (NO,))


class WrongLength(Honest):
    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts:
        return Verdicts(np.zeros(view.table.size + 1, np.int16), (NO,))


class WrongType(Honest):
    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts:
        return Verdicts(np.zeros(len(view.table.exists[rows])), ())  # type: ignore[arg-type]


class Raising(Honest):
    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts:
        raise KeyError("oops")


class OtherScalarForm(Honest):
    def filter_row(self, state: State, pod: Any, view: Any, row: int) -> Refusal | None:
        return None if self.is_refused(pod, view, row) else NO


class OtherFormForAFew(Honest):
    def filter_few(self, state: State, pod: Any, view: Any, rows: Any) -> list[Refusal | None]:
        return [NO] * len(rows)


class OtherScoresForAFew(PerNodeScore):
    name = "OtherScoresForAFew"

    def score_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> int:
        return 7

    def score_few(self, state: State, pod: Any, view: Any, rows: Any) -> list[int]:
        return [8] * len(rows)


class TooFewForAFew(OtherScoresForAFew):
    def score_few(self, state: State, pod: Any, view: Any, rows: Any) -> list[int]:
        return [7] * (len(rows) - 1)


class OrderDependent(Honest):
    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts:
        codes = np.zeros(len(view.table.exists[rows]), np.int16)
        codes[0] = 1
        return Verdicts(codes, (NO,))

    def filter_row(self, state: State, pod: Any, view: Any, row: int) -> Refusal | None:
        return NO if row == 0 else None


class Remembering(Honest):
    """Refuses every pod but the first one that it was ever asked about."""

    def __init__(self, args: Any = None) -> None:
        super().__init__(args)
        self.last = ""

    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts:
        return codes_of(view, rows, lambda view, row: self.last > pod.name)

    def fragment(self, pod: Any, view: Any) -> Any:
        self.last = max(self.last, pod.name)
        return pod.name


class Writing(Honest):
    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> None:
        view.table.pod_count[0] = 77


class Lending(ScorePlugin):
    """Its scores are a column of the table, not a copy."""

    name = "Lending"

    def score(self, state: State, pod: Any, view: Any, rows: Rows) -> Scores:
        column: Scores = view.table.pod_count[rows]
        return column


class WritingScores(NormalizePlugin):
    name = "WritingScores"

    def score(self, state: State, pod: Any, view: Any, rows: Rows) -> Scores:
        return np.ones(len(view.table.exists[rows]), np.int64)

    def normalize(self, state: State, scores: Scores, view: Any, rows: Rows) -> Scores:
        scores += 1
        return scores.copy()


class Unfair(NormalizePlugin):
    """The first of equal nodes gets the most."""

    name = "Unfair"

    def score(self, state: State, pod: Any, view: Any, rows: Rows) -> Scores:
        return np.ones(len(view.table.exists[rows]), np.int64)

    def normalize(self, state: State, scores: Scores, view: Any, rows: Rows) -> Scores:
        return np.arange(len(scores), 0, -1)


class Crowded(Unfair):
    """Equal scores come out equal, but as another number when there are fewer of them."""

    name = "Crowded"

    def normalize(self, state: State, scores: Scores, view: Any, rows: Rows) -> Scores:
        return np.full(len(scores), len(scores), np.int64)


class TooHigh(PerNodeScore):
    name = "TooHigh"

    def score_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> int:
        return 101


class NotWhole(PerNodeScore):
    name = "NotWhole"

    def score_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> int:
        return 0.5  # type: ignore[return-value]


class FragmentTooSmall(Honest):
    def is_refused(self, pod: Any, view: Any, row: int) -> bool:
        return bool(pod.labels.get("app") == "web")


class FragmentNotHashable(Honest):
    def fragment(self, pod: Any, view: Any) -> Any:
        return [1]


class ReadsNothing(Honest):
    reads = Reads.NOTHING


class ReadsUsageUndeclared(Honest):
    def is_refused(self, pod: Any, view: Any, row: int) -> bool:
        return int(view.table.pod_count[row]) > 2


class ReadsAnnotations(Honest):
    """Changed annotations are no change of the Node for ``Reads.NODE``."""

    def is_refused(self, pod: Any, view: Any, row: int) -> bool:
        annotations = view.table.nodes[row].metadata.annotations if view.table.nodes[row] is not None else {}
        return bool(annotations)


class ReadsServices(Honest):
    """Another kind, and no stamp that says so."""

    def is_refused(self, pod: Any, view: Any, row: int) -> bool:
        return bool(view.all(Kind.SERVICE))


class LooksAtFeasibleRows(PreScorePlugin, ScorePlugin):
    """Scores by how many nodes are left, and keeps it to itself."""

    name = "LooksAtFeasibleRows"
    reads = Reads.NODE

    class Count(State):
        def __init__(self, count: int) -> None:
            self.count = count

    def fragment(self, pod: Any, view: Any) -> Any:
        return 0

    def pre_score(self, pod: Any, view: Any, rows: Any) -> State:
        return self.Count(len(rows))

    def score(self, state: Any, pod: Any, view: Any, rows: Rows) -> Scores:
        return np.full(len(view.table.exists[rows]), state.count, np.int64)


class Counting(PreFilterPlugin, FilterPlugin):
    """At most two pods with the pod's label on a node, counted in ``pre_filter``; forgets ``with_pod``."""

    name = "Counting"

    class Counts(State):
        def __init__(self, counts: dict[str, int]) -> None:
            self.counts = counts

    def pre_filter(self, pod: Any, view: Any) -> State:
        alike = [
            sum(other.labels == pod.labels for other in view.table.pods[row].values())
            for row in view.ordered_rows.tolist()
        ]
        names = [view.table.names[row] for row in view.ordered_rows.tolist()]
        return self.Counts(dict(zip(names, alike, strict=True)))

    def filter(self, state: Any, pod: Any, view: Any, rows: Rows) -> Verdicts:
        return codes_of(view, rows, lambda view, row: state.counts.get(view.table.names[row], 0) > 0)


class CountingInPlace(Counting):
    """Has a ``with_pod``, which changes the State that it is called on."""

    name = "CountingInPlace"

    class Counts(Counting.Counts):
        def with_pod(self, view: Any, row: int, other: Any, sign: int) -> State:
            self.counts[view.table.names[row]] = self.counts.get(view.table.names[row], 0) + sign
            return self


class NameInHint(Honest):
    def events(self) -> tuple[EventRegistration, ...]:
        def hint(pod: Any, old: Any, new: Any) -> Hint:
            return Hint.SKIP if pod.name.endswith("twin") else Hint.QUEUE

        return (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), hint),)


def _raises_without_an_old_object(pod: Any, old: Any, new: Any) -> Hint:
    return Hint.QUEUE if old.metadata else Hint.SKIP


class HintThatRaises(Honest):
    def events(self) -> tuple[EventRegistration, ...]:
        return (EventRegistration(ClusterEvent(Resource.NODE, Action.ALL), _raises_without_an_old_object),)


class FacetTooSmall(Honest):
    """Looks at the node's name and shows its taints only."""

    def events(self) -> tuple[EventRegistration, ...]:
        def hint(pod: Any, old: Any, new: Any) -> Hint:
            return Hint.QUEUE if new is not None and new.metadata.name == "n1" else Hint.SKIP

        changed = ClusterEvent(Resource.NODE, Action.ALL)
        return (EventRegistration(changed, hint, lambda node: node.spec.taints),)


class FacetNotHashable(Honest):
    def events(self) -> tuple[EventRegistration, ...]:
        added = ClusterEvent(Resource.NODE, Action.ADD)
        return (EventRegistration(added, lambda pod, old, new: Hint.QUEUE, lambda node: node.metadata.labels),)


class UnconcernedWithoutSkip(PreFilterPlugin, FilterPlugin):
    name = "UnconcernedWithoutSkip"

    def concerns(self, pod: Any) -> bool:
        return "app" in pod.labels

    def pre_filter(self, pod: Any, view: Any) -> Any:
        return EMPTY_STATE

    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts | None:
        return None


class UnconcernedButScoring(ScorePlugin):
    name = "UnconcernedButScoring"

    def concerns(self, pod: Any) -> bool:
        return False

    def score(self, state: State, pod: Any, view: Any, rows: Rows) -> Scores:
        return np.zeros(len(view.table.exists[rows]), np.int64)


VIOLATIONS: list[tuple[type[Plugin], str]] = [
    (NoFilter, "shape"),
    (DeclaresWithoutFragment, "shape"),
    (CodeOutOfRange, "answers"),
    (WrongLength, "answers"),
    (WrongType, "answers"),
    (NotWhole, "answers"),
    (FragmentNotHashable, "answers"),
    (Raising, "raises"),
    (OtherScalarForm, "forms"),
    (OtherFormForAFew, "forms"),
    (OtherScoresForAFew, "forms"),
    (TooFewForAFew, "answers"),
    (OrderDependent, "forms"),
    (LooksAtFeasibleRows, "reads"),
    (Remembering, "repeatable"),
    (Writing, "inputs"),
    (Lending, "inputs"),
    (WritingScores, "inputs"),
    (Unfair, "normalize"),
    (Crowded, "normalize"),
    (TooHigh, "range"),
    (FragmentTooSmall, "fragment"),
    (ReadsNothing, "reads"),
    (ReadsUsageUndeclared, "reads"),
    (ReadsAnnotations, "reads"),
    (ReadsServices, "reads"),
    (Counting, "with_pod"),
    (CountingInPlace, "with_pod"),
    (NameInHint, "hints"),
    (HintThatRaises, "raises"),
    (FacetTooSmall, "hints"),
    (FacetNotHashable, "answers"),
    (UnconcernedWithoutSkip, "concerns"),
    (UnconcernedButScoring, "concerns"),
]
