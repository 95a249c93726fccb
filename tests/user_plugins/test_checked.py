"""A plugin that raises or answers nonsense is named in its pod's event; the other pods go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

from scheduler.compose import all_plugins, build_engine, build_profiles
from scheduler.config.loading import load
from scheduler.engine.commands import Command
from scheduler.engine.engine import Engine
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, HintKeys, Resource
from scheduler.framework.plugin import (
    FragmentReads,
    NodeSubset,
    Permitted,
    Plugin,
    PreEnqueuePlugin,
    PreFlight,
    Reads,
    Verdicts,
    Wait,
)
from scheduler.framework.plugin_requests import RejectWaiting
from scheduler.framework.post_filter import PostFilterAnswer, nominate
from scheduler.messages.commands import BindPod, PatchPodStatus, ReportProblem, WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.status import Code, Refusal, unschedulable
from scheduler.messages.stimuli import ObjectObserved, Synced, Tick
from scheduler.objects.kinds import kind_of
from scheduler.plugins.node_name import NodeName
from scheduler.testing.objects import node, pod
from scheduler.user_plugins.checked import checked, is_checked
from tests.engine.driver import Cluster
from tests.user_plugins import samples
from tests.user_plugins.samples import Answering, Reserving
from tests.user_plugins.test_loading import SAMPLES, configuration, sample_classes

NOW = Now(1000.0, 1_800_000_000 * 10**9)


@pytest.fixture(autouse=True)
def _usual_answers() -> Iterator[None]:
    yield
    Answering.answers = Reserving.answers = {}


def engine_with(class_name: str, name: str = "Mine") -> Engine:
    text = configuration(f'[{{name: {name}, path: "{SAMPLES}:{class_name}"}}]', f"[{{name: {name}}}]")
    loaded = load(text)
    profiles = build_profiles(loaded, all_plugins(loaded, sample_classes()))
    engine = build_engine(loaded, started=NOW, seed=1, stopwatch=lambda: 0.0, profiles=profiles)
    for thing in (node("a"), node("b")):
        engine.handle(ObjectObserved(kind_of(thing), thing), NOW)
    engine.handle(Synced(), NOW)
    return engine


def commands_for(engine: Engine, *pods: Any) -> list[Command]:
    commands: list[Command] = []
    for each in pods:
        commands += engine.handle(ObjectObserved(kind_of(each), each), NOW)
    while (more := engine.schedule_one(NOW)) is not None:
        commands += more
    engine.check()
    return commands


def event_of(**answers: Any) -> str:
    """The note of the failed attempt at a pod where the plugin answers so."""
    Answering.answers = answers
    commands = commands_for(engine_with("Answering"), pod("p"))
    (event,) = [command for command in commands if isinstance(command, WriteEvent)]
    assert event.reason == "FailedScheduling"
    assert not any(isinstance(command, BindPod) for command in commands)
    return event.note


def test_a_plugin_that_answers_as_it_should_is_not_in_the_way() -> None:
    commands = commands_for(engine_with("Answering"), pod("p"))
    assert any(isinstance(command, BindPod) for command in commands)


def test_a_filter_that_raises_is_named_and_the_other_pods_are_placed() -> None:
    engine = engine_with("Broken", "MyFilter")
    commands = commands_for(engine, pod("p1"), pod("p2", labels={"break": "yes"}), pod("p3"))
    assert [command.pod.name for command in commands if isinstance(command, BindPod)] == ["p1", "p3"]
    (event,) = [command for command in commands if isinstance(command, WriteEvent)]
    assert event.regarding.name == "p2"
    assert event.note == "running \"MyFilter\" filter plugin: KeyError: 'oops'"


def test_a_plugin_that_raises_as_it_states_its_pods_is_named() -> None:
    (event,) = [command for command in commands_for(engine_with("Unsure"), pod("p")) if isinstance(command, WriteEvent)]
    assert event.note == "running PreFilter plugin \"Mine\": KeyError: 'oops'"


@pytest.mark.parametrize("method", ["pre_filter", "pre_score", "reserve", "permit", "pre_bind_pre_flight"])
def test_a_plugin_is_asked_nothing_about_a_pod_that_does_not_concern_it(method: str) -> None:
    Answering.answers = {method: OSError("away")}
    commands = commands_for(engine_with("Choosy"), pod("other"), pod("its-own", labels={"mine": ""}))
    assert [command.pod.name for command in commands if isinstance(command, BindPod)] == ["other"]
    (event,) = [command for command in commands if isinstance(command, WriteEvent)]
    assert event.regarding.name == "its-own"


@pytest.mark.parametrize("method", ["reserve", "permit", "pre_bind_pre_flight"])
def test_a_plugin_that_decides_on_no_node_is_asked_nothing_either_about_a_pod_that_does_not_concern_it(
    method: str,
) -> None:
    Reserving.answers = {method: OSError("away")}
    commands = commands_for(engine_with("Reserving"), pod("other"), pod("its-own", labels={"mine": ""}))
    assert [command.pod.name for command in commands if isinstance(command, BindPod)] == ["other"]


def test_the_pod_of_a_plugin_that_raises_waits_in_error_back_off_and_is_tried_again() -> None:
    Answering.answers = {"pre_filter": OSError("away")}
    engine = engine_with("Answering")
    commands_for(engine, pod("p"))
    Answering.answers = {}
    later = Now(NOW.monotonic + 60.0, NOW.wall + 60 * 10**9)
    engine.handle(Tick(), later)
    assert any(isinstance(command, BindPod) for command in engine.schedule_one(later) or ())


@pytest.mark.parametrize(
    ("codes", "refusals", "text"),
    [
        (np.zeros(2, np.float64), (), "answered codes of type float64; int16 is wanted"),
        (np.zeros(2, np.bool_), (), "answered codes of type bool; int16 is wanted"),
        (np.zeros(3, np.int16), (), "answered codes of shape (3,) for 2 rows"),
        ([0, 0], (), "answered codes of type list; a numpy array is wanted"),
        (np.array([0, 2], np.int16), (unschedulable("x"),), "answered the code 2, but has 1 refusals"),
        (np.array([-1, 0], np.int16), (unschedulable("x"),), "answered the code -1, but has 1 refusals"),
        (np.array([0, 1], np.int16), ("no",), "answered 'no'; a tuple of Refusals is wanted"),
        (np.array([0, 1], np.int16), (Refusal(Code.SUCCESS),), "with the code Success, which refuses nothing"),
    ],
)
def test_an_invalid_filter_result_is_reported_under_the_plugin_s_name(codes: Any, refusals: Any, text: str) -> None:
    note = event_of(filter=Verdicts(codes, refusals), pre_filter=NodeSubset(frozenset({"a", "b"})))
    assert note.startswith('running "Mine" filter plugin: ')
    assert text in note


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        (np.array([0.5, float("nan")]), "scores of type float64 (some are NaN); int64 is wanted"),
        (np.zeros(2, np.int32), "scores of type int32; int64 is wanted"),
        (np.zeros(1, np.int64), "scores of shape (1,) for 2 rows"),
        (None, "scores of type NoneType; a numpy array is wanted"),
    ],
)
def test_an_invalid_score_is_reported_under_the_plugin_s_name(scores: Any, text: str) -> None:
    for method in ("score", "normalize"):
        note = event_of(**{method: scores})
        assert note.startswith('running Score plugins: plugin "Mine" failed with: ')
        assert text in note


def test_scores_out_of_range_are_reported_under_the_plugin_s_name() -> None:
    expected = 'plugin "Mine" returns an invalid score 101, it should in the range of [0, 100] after normalizing'
    assert event_of(normalize=np.array([3, 101], np.int64)) == expected


def test_a_score_that_is_no_number_is_reported_under_the_plugin_s_name() -> None:
    (event,) = [one for one in commands_for(engine_with("Guess"), pod("p")) if isinstance(one, WriteEvent)]
    assert 'plugin "Mine" failed with' in event.note
    assert "answered the score nan; a whole number is wanted" in event.note


@pytest.mark.parametrize(
    ("method", "answer", "text"),
    [
        ("pre_filter", None, "answered None; a State, SKIP or a Refusal is wanted"),
        ("pre_filter", NodeSubset(["a"]), "a frozenset of names is wanted"),  # type: ignore[arg-type]
        ("pre_filter", SystemExit(3), "SystemExit: 3"),
        ("pre_filter", asyncio.CancelledError(), "RuntimeError: CancelledError"),
        ("pre_filter", GeneratorExit(), "RuntimeError: GeneratorExit"),
        ("reserve", asyncio.CancelledError(), "RuntimeError: CancelledError"),
        ("permit", asyncio.CancelledError("no"), "RuntimeError: CancelledError: no"),
        ("pre_score", False, "answered False; a State, SKIP or a Refusal is wanted"),
        ("reserve", None, "answered None; a tuple of Effects or requests is wanted"),
        ("reserve", KeyError("oops"), "KeyError: 'oops'"),
        ("permit", Wait(-1), "answered a Wait of -1 seconds"),
        ("permit", "later", "answered 'later'; None, Permitted, a Wait or a Refusal is wanted"),
        ("permit", KeyError("oops"), "KeyError: 'oops'"),
        ("permit", Permitted((RejectWaiting("u", "\ud800"),)), "whose message is no text"),
        ("permit", Permitted((RejectWaiting("u", ["no"]),)), "whose message is no text"),  # type: ignore[arg-type]
        ("pre_bind_pre_flight", None, "answered None; a PreFlight, SKIP or a Refusal is wanted"),
        ("pre_bind_pre_flight", PreFlight(wait_seconds=10), "no more than is_parallel may be stated"),
        ("pre_bind_pre_flight", PreFlight(wait_seconds="10s"), "no more than is_parallel"),  # type: ignore[arg-type]
        ("pre_bind_pre_flight", PreFlight(writes=(1,)), "no more than is_parallel"),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_result_at_any_other_point_is_reported_under_the_plugin_s_name(
    method: str, answer: Any, text: str
) -> None:
    note = event_of(**{method: answer})
    assert "Mine" in note
    assert text in note


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("room", "answered 'room'"),
        (PostFilterAnswer(None, "a"), "answered the nomination 'a'"),  # type: ignore[arg-type]
        (PostFilterAnswer(None, nominate(None)), "answered the nomination Nomination("),  # type: ignore[arg-type]
        (PostFilterAnswer(None, nominate("a"), room="mine"), "answered the room 'mine'"),  # type: ignore[arg-type]
        (PostFilterAnswer(None, writes=("mine",)), "answered the writes ('mine',)"),  # type: ignore[arg-type]
    ],
)
def test_a_post_filter_that_answers_nonsense_is_named_beside_the_reasons_of_the_nodes(answer: Any, text: str) -> None:
    Answering.answers = {"post_filter": answer}
    commands = commands_for(engine_with("Answering"), pod("p", cpu="64"))
    (event,) = [command for command in commands if isinstance(command, WriteEvent)]
    assert "Insufficient cpu" in event.note
    assert f'running PostFilter plugin "Mine": TypeError: {text}' in event.note


def test_an_unreserve_that_raises_does_not_keep_the_pod_from_its_back_off() -> None:
    Answering.answers = {"permit": unschedulable("not now"), "unreserve": RuntimeError("stuck")}
    engine = engine_with("Answering")
    notes = [one.note for one in commands_for(engine, pod("p")) if isinstance(one, WriteEvent)]
    assert len(notes) == 1 and "not now" in notes[0]
    assert engine.cache.assumed_count == 0


def test_a_pre_enqueue_plugin_that_answers_nonsense_holds_back_its_pod_only() -> None:
    Answering.answers = {"pre_enqueue": True}
    engine = engine_with("Answering")
    commands = commands_for(engine, pod("p"))
    assert {type(command) for command in commands} == {WriteEvent, PatchPodStatus, ReportProblem}, "it is reported"
    assert any(isinstance(command, ReportProblem) and "Mine" in command.message for command in commands)


def test_events_that_are_none_are_a_fault_of_the_configuration() -> None:
    class Deaf(samples.Rack):
        def events(self) -> Any:
            return [ClusterEvent]

    with pytest.raises(Exception, match='initializing plugin "Deaf": TypeError: answered'):
        checked(Deaf, "Deaf", "plugins[0]")()


def test_an_effect_that_is_none_is_reported_in_the_plugin_s_name() -> None:
    note = event_of(reserve=samples.UNKNOWN_EFFECTS)
    text = "answered ('unheard of',); a tuple of Effects or requests is wanted"
    assert note == f'running Reserve plugin "Mine": TypeError: {text}'


def test_scores_that_are_the_table_s_own_column_are_copied() -> None:
    engine = engine_with("Lending")
    commands = commands_for(engine, *(pod(f"p{number}") for number in range(4)))
    bound = [command.node for command in commands if isinstance(command, BindPod)]
    view = engine.cache.view
    scores = engine.profiles["tandem-scheduler"].score_plugins
    (lending,) = [plugin for plugin, _ in scores if plugin.name == "Mine"]
    assert sum(view.table.pod_count[view.rows].tolist()) == len(bound) == 4
    answer = lending.score(None, None, view, view.rows)  # type: ignore[arg-type]
    assert not np.may_share_memory(answer, view.table.pod_count)


def test_built_in_plugins_are_not_wrapped() -> None:
    built_in = engine_with("Answering").profiles["tandem-scheduler"].plugins
    assert [plugin.name for plugin in built_in if is_checked(plugin)] == ["Mine"]
    assert all(type(plugin) is not Plugin for plugin in built_in) and not is_checked(NodeName())


def test_a_reason_that_utf_8_can_not_hold_is_reported_under_the_plugin_s_name() -> None:
    text = "answered a Refusal whose reasons are ('half \\ud800',); a tuple of texts is wanted"
    note = event_of(pre_filter=unschedulable("half \ud800"))
    assert note == f'running PreFilter plugin "Mine": TypeError: {text}'
    assert "é" in event_of(pre_filter=unschedulable("é"))


def leaving(*_asked: Any) -> Any:
    raise SystemExit(3)


DECLARED: Final = {"reads": Reads.NODE, "fragment": lambda self, pod, view: 0}


@pytest.mark.parametrize(
    ("attributes", "note"),
    [
        ({"concerns": leaving}, 'running PreFilter plugin "Mine": RuntimeError: SystemExit: 3'),
        (
            {"concerns": lambda self, pod: np.array([True, False])},
            'running PreFilter plugin "Mine": The truth value of an array with more than one element is ambiguous. Use '
            "a.any() or a.all()",
        ),
        ({**DECLARED, "stamp": leaving}, 'running "Mine" filter plugin: RuntimeError: SystemExit: 3'),
        (
            {**DECLARED, "fragment_reads": FragmentReads.CLUSTER, "fragment_stamp": leaving},
            'running Fragment plugin "Mine": RuntimeError: SystemExit: 3',
        ),
    ],
)
def test_a_plugin_that_wants_to_leave_as_it_states_what_it_reads_is_named(
    attributes: dict[str, Any], note: str
) -> None:
    plugin = type("Stating", (samples.Rack,), attributes)
    cluster = Cluster(checked(plugin, "Mine", "plugins[0]"))
    cluster.node("a")
    cluster.pod("p")
    cluster.schedule()
    assert cluster.said("p") == [note]


@pytest.mark.parametrize(
    "registered",
    [
        {"facet": leaving},
        {"facet": lambda node: 0, "keys": HintKeys(leaving, leaving)},
        {"facet": lambda node: 0, "keys": HintKeys(lambda pod: ((frozenset(("x",)),),), leaving)},
    ],
)
def test_where_a_facet_or_a_key_wants_to_leave_the_hint_is_asked(registered: dict[str, Any]) -> None:
    class Registering(samples.Rack):
        def events(self) -> Any:
            return (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), lambda *_: Hint.QUEUE, **registered),)

    cluster = Cluster(checked(Registering, "Mine", "plugins[0]"))
    cluster.node("a")
    cluster.pod("p", labels={"rack": "r"})
    cluster.settle()
    assert cluster.place("p") == "unschedulable"
    cluster.node("b")
    assert cluster.place("p") == "backoff"


@pytest.mark.parametrize("method", ["held_back", "may_release"])
def test_a_plugin_that_wants_to_leave_as_it_says_what_it_gates_is_reported(method: str) -> None:
    attributes = {"name": "Gating", "pre_enqueue": lambda self, pod, context: unschedulable("no"), method: leaving}
    plugin = type("Gating", (PreEnqueuePlugin,), attributes)
    cluster = Cluster(checked(plugin, "Mine", "plugins[0]"))
    cluster.pod("p")
    cluster.node("a")
    assert cluster.place("p") == "gated"
    assert set(cluster.problems()) == {f"PreEnqueue plugin Mine raised in {method}: RuntimeError: SystemExit: 3"}


@pytest.mark.parametrize(
    ("method", "answered"),
    [
        ("held_back", lambda: None),
        ("held_back", lambda: (uid for uid in ("p",))),
        ("held_back", lambda: [["p"]]),
        ("may_release", lambda: np.array([True, False])),
    ],
)
def test_a_plugin_that_answers_nonsense_about_what_it_gates_keeps_no_event_from_others(
    method: str, answered: Callable[[], Any]
) -> None:
    class Gating(PreEnqueuePlugin):
        name = "Gating"

        def pre_enqueue(self, pod: Any, context: Any) -> Any:
            return unschedulable("no") if pod.name == "p" else None

    setattr(Gating, method, lambda *_asked: answered())
    cluster = Cluster(checked(Gating, "Mine", "plugins[0]"))
    cluster.pod("p")
    cluster.pod("q")
    cluster.settle()
    cluster.node("a")
    cluster.advance(15)
    cluster.settle()
    assert (cluster.place("p"), cluster.node_of("q")) == ("gated", "a")
    assert all(f"PreEnqueue plugin Mine raised in {method}: " in problem for problem in cluster.problems())
    assert cluster.problems()


def test_a_hint_that_wants_to_leave_counts_as_try_the_pod() -> None:
    class Hinting(samples.Rack):
        def events(self) -> Any:
            return (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), leaving),)

    cluster = Cluster(checked(Hinting, "Mine", "plugins[0]"))
    cluster.node("a")
    cluster.pod("p", labels={"rack": "r"})
    cluster.settle()
    assert cluster.place("p") == "unschedulable"
    cluster.node("b", labels={"rack": "r"})
    cluster.settle()
    cluster.advance(10)
    cluster.settle()
    assert cluster.node_of("p") == "b"
