"""Plugins whose authors were careless: what they do is named with the plugin, and costs other pods nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
import structlog

from scheduler.engine.explain import pod_page
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.per_node import PerNodeFilter
from scheduler.framework.plugin import (
    FilterPlugin,
    Finding,
    NodeSubset,
    NormalizePlugin,
    Plugin,
    PreBindPlugin,
    PreFilterPlugin,
    Reads,
    State,
    Verdicts,
)
from scheduler.messages.status import SKIP, Refusal, unschedulable
from scheduler.user_plugins.checked import checked
from tests.engine.driver import Cluster
from tests.user_plugins.samples import Panic


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit(4)


@pytest.fixture(autouse=True)
def _log_lines() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


def cluster_with(plugin: type[Plugin], weight: int = 1) -> Cluster:
    enabled = [{"name": "Mine", "weight": weight}]
    cluster = Cluster(checked(plugin, "Mine", "plugins[0]"), profile={"plugins": {"multiPoint": {"enabled": enabled}}})
    cluster.node("a")
    return cluster


def refusing(state: Any, pod: Any, node: Any, node_view: Any) -> Refusal | None:
    return unschedulable("not for this pod") if "odd" in pod.labels else None


@pytest.mark.parametrize(
    ("error", "text"),
    [(Panic("index out of bounds"), "RuntimeError: Panic: index out of bounds"), (Unprintable(), "Unprintable: its")],
)
def test_what_is_no_exception_or_has_no_text_is_named_and_fails_one_pod(error: BaseException, text: str) -> None:
    class Raising(PerNodeFilter):
        def filter_one(self, state: Any, pod: Any, node: Any, node_view: Any) -> Any:
            if "odd" in pod.labels:
                raise error

    cluster = cluster_with(Raising)
    cluster.pod("p", labels={"odd": ""})
    cluster.pod("q")
    cluster.settle()
    (note,) = cluster.said("p")
    assert note.startswith(f'running "Mine" filter plugin: {text}')
    assert cluster.node_of("q") == "a"


def test_a_hint_that_raises_what_is_no_exception_counts_as_try_the_pod() -> None:
    def panicking(*_asked: Any) -> Hint:
        raise Panic("index out of bounds")

    class Hinting(PerNodeFilter):
        filter_one = staticmethod(refusing)

        def events(self) -> Any:
            return (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), panicking),)

    cluster = cluster_with(Hinting)
    cluster.pod("p", labels={"odd": ""})
    cluster.settle()
    assert cluster.place("p") == "unschedulable"
    cluster.node("b")
    assert cluster.place("p") == "backoff"


def test_a_hint_that_answers_nothing_is_reported_with_what_is_wanted() -> None:
    class Hinting(PerNodeFilter):
        filter_one = staticmethod(refusing)

        def events(self) -> Any:
            return (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), lambda *_: None),)  # type: ignore[arg-type]

    cluster = cluster_with(Hinting)
    cluster.pod("p", labels={"odd": ""})
    cluster.settle()
    cluster.node("b")
    (problem,) = cluster.problems()
    assert "Mine" in problem and "TypeError: answered None; a Hint is wanted" in problem


@pytest.mark.parametrize(
    "written",
    [
        staticmethod(refusing),
        classmethod(lambda cls, *asked: refusing(*asked)),
        functools.partialmethod(lambda self, _more, *asked: refusing(*asked), "more"),
        property(lambda self: refusing),
    ],
)
def test_a_method_may_be_written_as_any_kind_of_method(written: Any) -> None:
    cluster = cluster_with(type("Written", (PerNodeFilter,), {"filter_one": written}))
    cluster.pod("p", labels={"odd": ""})
    cluster.pod("q")
    cluster.settle()
    assert "not for this pod" in cluster.said("p")[0]
    assert cluster.node_of("q") == "a"


def test_a_plugin_that_names_itself_as_it_is_made_keeps_its_configured_name() -> None:
    class Naming(PerNodeFilter):
        def __init__(self, args: Any = None) -> None:
            super().__init__(args)
            self.name = "Own"  # type: ignore[misc]

    assert checked(Naming, "Mine", "plugins[0]")().name == "Mine"


def test_a_time_limit_that_a_plugin_sets_as_it_is_made_is_checked() -> None:
    class Limited(PreBindPlugin):
        def __init__(self, args: Any = None) -> None:
            super().__init__(args)
            self.time_limit_seconds = "10s"  # type: ignore[misc,assignment]

    with pytest.raises(Exception, match='"Mine": ValueError: time_limit_seconds must be above 0 and at most 600'):
        checked(Limited, "Mine", "plugins[0]")()


@pytest.mark.parametrize("event", [("Node", "Add"), ClusterEvent("Node", 1)])  # type: ignore[arg-type]
def test_a_registration_of_no_event_is_a_fault_of_the_configuration(event: Any) -> None:
    class Deaf(PerNodeFilter):
        def events(self) -> Any:
            return (EventRegistration(event),)

    with pytest.raises(Exception, match='initializing plugin "Mine": TypeError: answered a registration of'):
        checked(Deaf, "Mine", "plugins[0]")()


class Sized(State):
    """As written by an author who overlooked that it is a property."""

    def nbytes(self) -> int:  # type: ignore[override]
        return 8


class Answering(PreFilterPlugin, FilterPlugin):
    answer: Any = SKIP

    def pre_filter(self, pod: Any, view: Any) -> Any:
        return self.answer if "odd" in pod.labels else SKIP

    def filter(self, state: Any, pod: Any, view: Any, rows: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Sized(), "answered a State whose nbytes is"),
        (NodeSubset(frozenset({"a"}), Sized()), "answered a State whose nbytes is"),
        (NodeSubset(frozenset({"a"}), None), "answered a NodeSubset with the state None; a State is wanted"),  # type: ignore[arg-type]
        (NodeSubset(frozenset({3})), "answered a NodeSubset of frozenset({3}); a frozenset of names is wanted"),  # type: ignore[arg-type]
        (Refusal("Unschedulable"), "answered a Refusal whose code is 'Unschedulable'; a Code is wanted"),  # type: ignore[arg-type]
    ],
)
def test_a_state_that_can_not_be_kept_fails_its_own_pod_and_no_other(answer: Any, text: str) -> None:
    cluster = cluster_with(type("Mine", (Answering,), {"answer": answer}))
    cluster.pod("p", labels={"odd": ""})
    cluster.settle()
    cluster.pod("q")
    cluster.settle()
    assert cluster.said("p")[0].startswith(f'running PreFilter plugin "Mine": TypeError: {text}')
    assert (cluster.said("q"), cluster.node_of("q")) == ([], "a")


@pytest.mark.parametrize("refusals", [None, unschedulable("no"), {unschedulable("no")}])
def test_refusals_that_are_no_tuple_are_reported_with_what_is_wanted(refusals: Any) -> None:
    class Refusing(FilterPlugin):
        def filter(self, state: Any, pod: Any, view: Any, rows: Any) -> Verdicts:
            return Verdicts(np.ones(view.table.size if isinstance(rows, slice) else len(rows), np.int16), refusals)

    cluster = cluster_with(Refusing)
    cluster.pod("p")
    cluster.settle()
    assert cluster.said("p")[0].startswith('running "Mine" filter plugin: TypeError: answered the refusals')
    assert cluster.said("p")[0].endswith("a tuple of Refusals is wanted")


def leaving(*_asked: Any) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize("method", ["findings", "why_not"])
@pytest.mark.parametrize(
    ("answered", "text"),
    [
        (lambda *_: None, "TypeError: answered None; a tuple of Findings is wanted"),
        (lambda *_: ("a line",), "TypeError: answered ('a line',); a tuple of Findings is wanted"),
        (lambda *_: (Finding(1, ("a",), "a line"),), "a Finding of a number and tuples of texts is wanted"),  # type: ignore[arg-type]
        (leaving, "RuntimeError: SystemExit: 3"),
    ],
)
def test_nonsense_for_the_page_of_a_pod_is_a_line_on_it(method: str, answered: Any, text: str) -> None:
    plugin = type("Telling", (PerNodeFilter,), {"filter_one": staticmethod(refusing), method: answered})
    cluster = cluster_with(plugin)
    cluster.pod("p", labels={"odd": ""})
    cluster.settle()
    page = msgspec.json.encode(pod_page(cluster.engine, "default/p", cluster.now)).decode()
    assert "no details: " in page and text in page


# --- scores -----------------------------------------------------------------------------------------------------------


class Ranking(NormalizePlugin):
    """Prefers the nodes of the highest rank; of the pod it reads which label is the rank."""

    reads = Reads.NODE

    def fragment(self, pod: Any, view: Any) -> str:
        return str(pod.labels["by"])

    def score(self, state: Any, pod: Any, view: Any, rows: Any) -> Any:
        listed = range(view.table.size) if isinstance(rows, slice) else rows.tolist()
        return np.array([int(view.table.nodes[row].metadata.labels[pod.labels["by"]]) for row in listed], np.int64)

    def normalize(self, state: Any, scores: Any, view: Any, rows: Any) -> Any:
        return scores * 100 // scores.max()


class InPlace(Ranking):
    """Normalises in the array that it was given."""

    def normalize(self, state: Any, scores: Any, view: Any, rows: Any) -> Any:
        scores *= 100
        scores //= scores.max() // 100
        return scores


class Reusing(Ranking):
    """Answers with the same array each time."""

    def score(self, state: Any, pod: Any, view: Any, rows: Any) -> Any:
        scores = super().score(state, pod, view, rows)
        if len(scores) < 3:
            return scores
        self.buffer = getattr(self, "buffer", scores)
        self.buffer[:] = scores
        return self.buffer


@pytest.mark.parametrize("plugin", [Ranking, InPlace, Reusing])
def test_scores_that_are_kept_are_out_of_the_plugin_s_reach(plugin: type[Plugin]) -> None:
    cluster = cluster_with(plugin, weight=100)
    cluster.node("a", labels={"x": "9", "y": "9"})
    cluster.node("b", labels={"x": "1", "y": "1"})
    cluster.node("c", labels={"x": "10", "y": "1"})

    def chosen(name: str, by: str) -> str:
        cluster.pod(name, labels={"by": by})
        cluster.settle()
        return str(cluster.node_of(name))

    assert [chosen("p1", "x"), chosen("p2", "y")] == ["c", "a"]
    cluster.node("b", labels={"x": "2", "y": "1"})
    assert chosen("p3", "x") == "c"
    cluster.node("b", labels={"x": "50", "y": "1"})
    assert chosen("p4", "x") == "b"


def test_an_answer_that_can_not_be_shown_fails_its_pod_in_the_plugin_s_name() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise SystemExit(3)

    cluster = cluster_with(type("Mine", (Answering,), {"answer": Odd()}))
    cluster.pod("p", labels={"odd": ""})
    cluster.settle()
    assert cluster.said("p") == ['running PreFilter plugin "Mine": RuntimeError: SystemExit: 3']
