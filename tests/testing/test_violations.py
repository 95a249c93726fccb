"""Plugins that break the contract, each in one way: the check must catch every one by its own rule."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.per_node import NodeView, PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import (
    Plugin,
    Reads,
    State,
)
from scheduler.messages.status import Refusal
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from scheduler.testing import Cluster, ContractViolation, check_contract, node, pod
from tests import builders
from tests.testing.violating_after_the_choice import VIOLATIONS_AFTER_THE_CHOICE
from tests.testing.violating_declarations import VIOLATING_DECLARATIONS
from tests.testing.violating_plugins import NO, VIOLATIONS, Counting, Honest, ReadsServices


def cluster() -> Cluster:
    nodes = [node(f"n{number}") for number in range(5)]
    pods = [pod(f"p{number}", node=f"n{number % 5}", labels={"app": "web"}) for number in range(6)]
    pending = [pod("a"), pod("b", labels={"app": "web"}), pod("c", labels={"app": "db"})]
    return Cluster(nodes, pods, pending, [builders.service("web", {"app": "web"})])


@pytest.mark.parametrize(
    ("plugin_type", "rule"),
    VIOLATIONS + VIOLATIONS_AFTER_THE_CHOICE + VIOLATING_DECLARATIONS,
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_plugin_that_breaks_a_promise_is_caught_by_the_rule_of_that_promise(
    plugin_type: type[Plugin], rule: str
) -> None:
    with pytest.raises(ContractViolation) as caught:
        check_contract(plugin_type(), [cluster()])
    assert caught.value.rule == rule
    assert getattr(plugin_type, "name", plugin_type.__name__) in str(caught.value)


def test_an_honest_plugin_passes_on_its_own_clusters_and_on_the_usual_ones() -> None:
    check_contract(Honest(), [cluster()])
    check_contract(Honest())


def test_a_plugin_that_declares_nothing_may_read_everything() -> None:
    class Undeclared(ReadsServices):
        reads = Reads.UNDECLARED

    check_contract(Undeclared(), [cluster()])


def test_a_stamp_makes_it_right_to_read_another_kind() -> None:
    class Stamped(ReadsServices):
        def stamp(self, fragment: Any, view: Any) -> Any:
            return view.version(Kind.SERVICE)

    check_contract(Stamped(), [cluster()])


def test_per_node_plugins_pass_too() -> None:
    class Cheap(PerNodeFilter, PerNodeScore):
        name = "Cheap"

        def filter_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> Refusal | None:
            return NO if len(node_view.pods) > 3 else None

        def score_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> int:
            return min(100, 10 * len(node_view.pods))

    check_contract(Cheap())


def test_a_counting_state_with_a_true_with_pod_passes() -> None:
    class True_(Counting):
        class Counts(Counting.Counts):
            def __init__(self, counts: dict[str, int], labels: Any = None) -> None:
                super().__init__(counts)
                self.labels = labels

            def with_pod(self, view: Any, row: int, other: Any, sign: int) -> State:
                if other.labels != self.labels:
                    return self
                name = view.table.names[row]
                return type(self)({**self.counts, name: self.counts.get(name, 0) + sign}, self.labels)

        def pre_filter(self, pod: Any, view: Any) -> State:
            counted: Any = super().pre_filter(pod, view)
            counted.labels = pod.labels
            return counted  # type: ignore[no-any-return]

    check_contract(True_(), [cluster()])


def test_a_wrong_answer_is_named_by_the_method_that_the_author_wrote() -> None:
    class Truth(PerNodeFilter):
        name = "Truth"

        def filter_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> Any:
            return True

    with pytest.raises(ContractViolation, match=r"filter_one of pod a .* answered True; None or a Refusal is wanted"):
        check_contract(Truth(), [cluster()])


def test_what_is_no_exception_is_a_violation_too() -> None:
    class Leaving(PerNodeFilter):
        name = "Leaving"

        def filter_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> Any:
            raise SystemExit(3)

    with pytest.raises(ContractViolation, match=r"filter_one of pod a and node n0 raised SystemExit: 3"):
        check_contract(Leaving(), [cluster()])
