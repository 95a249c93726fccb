"""Plugins whose declarations, hints and State are wrong in ways that only the check can see, each with its rule."""

from __future__ import annotations

from typing import Any

from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, HintKeys, Resource
from scheduler.framework.plugin import (
    FilterPlugin,
    FragmentReads,
    NodeSubset,
    NormalizePlugin,
    Plugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreFlight,
    Rows,
    Scores,
    State,
)
from scheduler.messages.status import SKIP
from tests.testing.violating_plugins import Honest


class NameInFragment(Honest):
    """Its fragment is computed once for all pods of a template, and reads the pod's name."""

    fragment_reads = FragmentReads.TEMPLATE

    def fragment(self, pod: Any, view: Any) -> Any:
        return pod.name


class NameInConcerns(PreFilterPlugin, FilterPlugin):
    """Concerns are asked once for all pods of a template."""

    name = "NameInConcerns"

    def concerns(self, pod: Any) -> bool:
        return bool(pod.name == "a")

    def pre_filter(self, pod: Any, view: Any) -> Any:
        return State() if pod.name == "a" else SKIP

    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> None:
        return None


class ConcernsThatAwaits(NameInConcerns):
    async def concerns(self, pod: Any) -> bool:  # type: ignore[override]
        return False


class FragmentReadsAText(Honest):
    fragment_reads = "template"  # type: ignore[assignment]


class NormalizingInPlace(NormalizePlugin):
    name = "NormalizingInPlace"

    def score(self, state: State, pod: Any, view: Any, rows: Rows) -> Scores:
        scores: Scores = view.table.pod_count[rows].copy()
        return scores

    def normalize(self, state: State, scores: Scores, view: Any, rows: Rows) -> Scores:
        scores *= 10
        return scores


class NodesWithoutAState(PreFilterPlugin):
    name = "NodesWithoutAState"

    def pre_filter(self, pod: Any, view: Any) -> Any:
        return NodeSubset(frozenset({"n1"}), None)  # type: ignore[arg-type]


def _raising(_thing: Any) -> Any:
    raise KeyError("oops")


class KeysThatRaise(Honest):
    keys = HintKeys(_raising, _raising)

    def events(self) -> Any:
        event = ClusterEvent(Resource.NODE, Action.ADD)
        return (EventRegistration(event, lambda *_: Hint.QUEUE, lambda _: 0, self.keys),)


class KeysOfNothing(KeysThatRaise):
    keys = HintKeys(lambda pod: 3, lambda thing: 3)  # type: ignore[arg-type,return-value]


class PreBindMisspelt(PreBindPlugin):
    name = "PreBindMisspelt"

    def pre_bind_pre_flight(self, state: Any, pod: Any, view: Any, node: str) -> PreFlight:
        return PreFlight()

    async def prebind(self, context: Any) -> None:
        return None


VIOLATING_DECLARATIONS: list[tuple[type[Plugin], str]] = [
    (NameInFragment, "fragment"),
    (NameInConcerns, "concerns"),
    (ConcernsThatAwaits, "shape"),
    (FragmentReadsAText, "shape"),
    (NormalizingInPlace, "inputs"),
    (NodesWithoutAState, "answers"),
    (PreBindMisspelt, "answers"),
    (KeysThatRaise, "raises"),
    (KeysOfNothing, "raises"),
]
