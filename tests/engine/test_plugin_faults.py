"""Plugins that fail in a scheduling cycle: they are named, their pod waits, and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.engine.attempt import ERROR, UNSCHEDULABLE
from scheduler.framework.per_node import PerNodeFilter
from scheduler.framework.plugin import PreFilterPlugin, Reads, State
from scheduler.framework.post_filter import PostFilterAnswer, nominate
from scheduler.messages.status import SKIP, failure
from tests.engine.driver import Cluster
from tests.engine.scripted import broken, scripted


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"pre_filter": broken}, 'running PreFilter plugin "Bad": RuntimeError: boom'),
        ({"filter": broken}, 'running "Bad" filter plugin: RuntimeError: boom'),
        ({"score": broken}, 'running Score plugins: plugin "Bad" failed with: RuntimeError: boom'),
        (
            {"score": lambda pod, node: 1, "normalize": broken},
            'running Score plugins: plugin "Bad" failed with: RuntimeError: boom',
        ),
        ({"reserve": broken}, 'running Reserve plugin "Bad": RuntimeError: boom'),
        ({"permit": broken}, 'running Permit plugin "Bad": RuntimeError: boom'),
        ({"pre_flight": broken}, 'running PreBindPreFlight plugin "Bad": RuntimeError: boom'),
        ({"filter": lambda pod, node: failure("no idea")}, 'running "Bad" filter plugin: no idea'),
        ({"reserve": lambda pod, node: failure("no idea")}, 'running Reserve plugin "Bad": no idea'),
        ({"permit": lambda pod, node: failure("no idea")}, 'running Permit plugin "Bad": no idea'),
    ],
)
def test_a_plugin_that_fails_is_named_and_stops_no_other_pod(
    points: dict[str, Callable[..., Any]], message: str
) -> None:
    def only_for_a(answer: Callable[..., Any]) -> Callable[..., Any]:
        def asked(first: Any, *rest: Any) -> Any:
            if isinstance(first, str) and first != "a":
                return 1 if "score" in points else (SKIP if "pre_flight" in points else None)
            return answer(first, *rest)

        return asked

    pods = {"a": 2, "b": 1}
    wrapped: dict[str, Any] = {
        name: only_for_a(answer) if name != "normalize" else answer for name, answer in points.items()
    }
    cluster = Cluster(scripted("Bad", **wrapped))
    cluster.nodes_like(2)
    for name, priority in pods.items():
        cluster.pod(name, priority=priority)
    cluster.schedule()
    attempt = cluster.attempt("a")
    assert (attempt.result, attempt.message) == (ERROR, message)
    assert cluster.place("a") == "error backoff"
    assert cluster.node_of("a") == ""
    assert cluster.said("a") == [message]
    if "normalize" not in points:
        cluster.schedule()
        assert cluster.node_of("b") != ""
        cluster.settle()
    assert cluster.is_quiet()


def test_a_post_filter_that_fails_leaves_the_fit_error_as_it_is() -> None:
    cluster = Cluster(scripted("Bad", post_filter=broken))
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="2")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.result == UNSCHEDULABLE
    assert attempt.message == (
        '0/1 nodes are available: 1 Insufficient cpu. running PostFilter plugin "Bad": RuntimeError: boom'
    )
    assert cluster.place("a") == "unschedulable"


def test_a_post_filter_that_answers_nonsense_is_named_too() -> None:
    cluster = Cluster(scripted("Bad", post_filter=lambda context: None))
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="2")
    attempt = cluster.schedule()
    assert attempt is not None
    assert 'running PostFilter plugin "Bad": TypeError: answered NoneType' in attempt.message


def test_a_post_filter_that_succeeds_ends_the_round_and_nominates() -> None:
    cluster = Cluster(
        scripted("Makes", post_filter=lambda context: PostFilterAnswer(None, nominate("n"))),
        scripted("Never", post_filter=broken),
        first=True,
    )
    cluster.node("n", cpu="1")
    cluster.pod("a", cpu="2")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert cluster.nominated("a") == "n"


class Miscounting(PreFilterPlugin, PerNodeFilter):
    """Its State can't be had with a pod more or less."""

    name = "Miscounting"

    class Counted(State):
        def with_pod(self, view: Any, row: int, other: Any, sign: int) -> Any:
            if other.labels.get("app") == "odd":
                return None
            raise LookupError("no count")

    def pre_filter(self, pod: Any, view: Any) -> State:
        return self.Counted()

    def filter_one(self, state: State, pod: Any, node: Any, node_view: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("app", "fault"), [("", "LookupError: no count"), ("odd", "TypeError: answered NoneType; a State is wanted")]
)
def test_a_plugin_whose_state_fails_to_count_a_pod_is_named_in_preemption_and_beside_nominated_pods(
    app: str, fault: str
) -> None:
    cluster = Cluster(Miscounting)
    cluster.node("n", cpu="1")
    cluster.pod("low", cpu="1", priority=1, node="n", labels={"app": app})
    cluster.pod("high", cpu="1", priority=10)
    cluster.schedule()
    assert f"preemption: plugin Miscounting failed in RemovePod: {fault}" in cluster.said("high")[0]
    cluster.pod("a", cpu="1", priority=10)
    cluster.pod("nominated", cpu="1", priority=10, nominated="n", labels={"app": app})
    cluster.schedule()
    assert cluster.said("a") == [f'running AddPod on PreFilter plugin "Miscounting": {fault}']
    assert cluster.problems() == []


def test_a_plugin_whose_fragment_can_not_be_a_key_is_named() -> None:
    unhashable = scripted(
        "Bad", filter=lambda pod, node: None, reads=Reads.NODE, fragment=lambda self, pod, view: ["a list"]
    )
    cluster = Cluster(unhashable)
    cluster.node("n")
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.result == ERROR
    assert "Bad" in attempt.message or "unhashable" in attempt.message


class Speechless(Exception):
    """Its own fault hides its text."""

    def __str__(self) -> str:
        return str(self.args[7])


def speechless(*_asked: Any) -> Any:
    raise Speechless("x")


def half_a_pair(*_asked: Any) -> Any:
    raise KeyError("\ud800")


@pytest.mark.parametrize(
    ("raises", "text"),
    [(speechless, "Speechless: its text can't be made: IndexError"), (half_a_pair, "KeyError: '\\ud800'")],
)
@pytest.mark.parametrize(
    ("point", "running"),
    [
        ("pre_filter", 'running PreFilter plugin "Bad": '),
        ("filter", 'running "Bad" filter plugin: '),
        ("score", 'running Score plugins: plugin "Bad" failed with: '),
        ("permit", 'running Permit plugin "Bad": '),
        ("pre_flight", 'running PreBindPreFlight plugin "Bad": '),
    ],
)
def test_an_exception_that_has_no_text_or_none_in_utf_8_costs_its_pod_an_attempt(
    point: str, running: str, raises: Callable[..., Any], text: str
) -> None:
    points: dict[str, Any] = {point: raises}
    cluster = Cluster(scripted("Bad", **points))
    cluster.nodes_like(2)
    cluster.pod("a")
    cluster.schedule()
    assert cluster.said("a") == [running + text]
    cluster.said("a")[0].encode()
    assert cluster.place("a") == "error backoff"
