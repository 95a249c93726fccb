from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from e2e.client import Seen
from e2e.room import bindings, most_pods_at_once, nodes_of_each_pod, placements, refusal


def seen(kind: str, name: str, node: str | None = None, phase: str = "Running") -> Seen:
    spec = {"nodeName": node} if node else {}
    return Seen(0.0, kind, {"metadata": {"name": name, "uid": name}, "spec": spec, "status": {"phase": phase}})


def test_room_that_a_deleted_or_finished_pod_left_is_not_counted_twice() -> None:
    history = [
        seen("ADDED", "a", "n"),
        seen("MODIFIED", "a", "n", "Succeeded"),
        seen("ADDED", "b", "n"),
        seen("DELETED", "b", "n"),
        seen("ADDED", "c", "n"),
    ]
    watch: Any = SimpleNamespace(history=history)
    assert most_pods_at_once(watch) == {"n": 1}


def test_the_most_crowded_moment_counts_even_if_it_is_over() -> None:
    history = [seen("ADDED", "a", "n"), seen("ADDED", "b", "n"), seen("DELETED", "a", "n")]
    watch: Any = SimpleNamespace(history=history)
    assert most_pods_at_once(watch) == {"n": 2}


def test_a_pod_seen_on_two_nodes_is_found() -> None:
    assert nodes_of_each_pod([seen("ADDED", "a", "n"), seen("MODIFIED", "a", "m")]) == {"a": {"n", "m"}}


def test_placements_leave_out_pods_without_a_node() -> None:
    state = {"x/a": seen("ADDED", "a", "n").thing, "x/b": seen("ADDED", "b").thing}
    assert placements(state) == {"a": "n"}


def test_a_refusal_is_the_condition_that_the_pod_was_not_scheduled() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    assert refusal({"status": {"conditions": [condition]}}) == condition
    assert refusal({"status": {"conditions": [{**condition, "status": "True"}]}}) is None
    assert refusal(None) is None


def test_bindings_are_counted_by_pod_and_answer_in_one_namespace() -> None:
    def entry(name: str, code: int, namespace: str = "x", subresource: str = "binding") -> dict[str, Any]:
        reference = {"name": name, "namespace": namespace, "subresource": subresource}
        return {"objectRef": reference, "responseStatus": {"code": code}}

    audit = [entry("a", 201), entry("a", 409), entry("b", 201, "y"), entry("c", 200, subresource="status")]
    assert bindings(audit, "x") == {("a", 201): 1, ("a", 409): 1}
