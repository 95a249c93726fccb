from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import template_key
from scheduler.framework.events import (
    DEFAULT_REGISTRATIONS,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventRegistration,
    Resource,
)
from scheduler.framework.plugin import FilterPlugin, Plugin, ScorePlugin
from scheduler.queue.hints import EXTENDER, HintMap, Strategy, registrations_of
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing.objects import node, pod
from tests.queue.fakes import NODE_ADD, NODE_LABEL, PROFILE, never, on

NODE_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)


def plugin_of(
    plugin_name: str, registrations: tuple[EventRegistration, ...] | None, base: type[Plugin] = FilterPlugin
) -> Plugin:
    class Made(base):  # type: ignore[misc, valid-type]
        name = plugin_name

        def events(self) -> tuple[EventRegistration, ...]:
            return super().events() if registrations is None else registrations

    made: Plugin = Made()
    return made


def rejected(*plugins: str) -> QueuedPod:
    record = QueuedPod(PodInfo(pod("a")), 0)
    record.rejected_by(plugins)
    return record


def hint_map(
    registered: dict[str, tuple[EventRegistration, ...]], stopwatch: Callable[[], float] | None = None
) -> HintMap:
    return HintMap({PROFILE: registered}, QueueMetrics(), stopwatch)


def test_a_plugin_that_registers_nothing_hears_of_everything() -> None:
    assert registrations_of([plugin_of("A", None)], has_extenders=False) == {"A": DEFAULT_REGISTRATIONS}


def test_a_plugin_with_an_empty_list_hears_of_nothing() -> None:
    assert registrations_of([plugin_of("A", ())], has_extenders=False) == {"A": ()}


def test_plugins_that_cannot_reject_take_no_part() -> None:
    assert registrations_of([plugin_of("A", None, ScorePlugin)], has_extenders=False) == {}


def test_a_plugin_registered_for_new_nodes_gets_changed_taints_too() -> None:
    registered = registrations_of([plugin_of("A", (on(NODE_ADD, never),))], has_extenders=False)
    hints = hint_map(registered)
    assert hints.strategy(rejected("A"), NODE_ADD, None, node("n")) is Strategy.SKIP
    assert hints.strategy(rejected("A"), NODE_TAINT, node("n"), node("n")) is Strategy.AFTER_BACKOFF


def test_a_plugin_with_a_hint_for_taints_keeps_it() -> None:
    both = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
    hints = hint_map(registrations_of([plugin_of("A", (on(both, never),))], has_extenders=False))
    assert hints.strategy(rejected("A"), NODE_TAINT, node("n"), node("n")) is Strategy.SKIP


def test_pods_that_an_extender_rejected_are_moved_by_any_event() -> None:
    hints = hint_map(registrations_of([], has_extenders=True))
    assert hints.strategy(rejected(EXTENDER), NODE_LABEL, node("n"), node("n")) is Strategy.AFTER_BACKOFF


def test_changes_of_pod_groups_move_pods_that_an_extender_or_a_plugin_without_registrations_rejected() -> None:
    hints = hint_map(registrations_of([plugin_of("A", None)], has_extenders=True))
    for action in (Action.ADD, Action.UPDATE, Action.DELETE):
        event = ClusterEvent(Resource.POD_GROUP, action)
        for plugin in ("A", EXTENDER):
            assert hints.strategy(rejected(plugin), event, None, None) is Strategy.AFTER_BACKOFF


def test_a_general_update_reaches_only_who_registered_all_of_it() -> None:
    general = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE)
    some = ClusterEvent(Resource.POD, Action.ADD | Action.UPDATE_POD_LABEL)
    every = ClusterEvent(Resource.POD, Action.UPDATE)
    hints = hint_map({"Some": (on(some),), "Every": (on(every),)})
    assert set(hints.interest(general)[PROFILE]) == {"Every"}


def test_forced_events_pass_by_all_pods_but_their_own() -> None:
    hints = hint_map({"A": ()})
    record = rejected("A")
    assert hints.strategy(record, UNSCHEDULABLE_TIMEOUT, None, None) is Strategy.AFTER_BACKOFF
    assert hints.strategy(record, FORCE_ACTIVATE, None, record.info) is Strategy.AFTER_BACKOFF
    assert hints.strategy(record, FORCE_ACTIVATE, None, PodInfo(pod("b"))) is Strategy.SKIP


def test_with_a_stopwatch_answers_are_timed_by_outcome() -> None:
    ticks = iter(range(100))
    facts = QueueMetrics()

    def broken(_pod: Any, _old: Any, _new: Any) -> Any:
        raise ValueError

    hints = HintMap(
        {PROFILE: {"A": (on(NODE_ADD, never),), "B": (on(NODE_ADD, broken),)}}, facts, lambda: next(ticks) * 0.5
    )
    hints.strategy(rejected("A", "B"), NODE_ADD, None, node("n"))
    assert {key: (found.count, found.seconds) for key, found in facts.hint_durations.items()} == {
        ("A", "NodeAdd", "QueueSkip"): (1, 0.5),
        ("B", "NodeAdd", "Error"): (1, 0.5),
    }
    assert facts.hint_durations["A", "NodeAdd", "QueueSkip"].buckets[-1] == 1


def test_copies_of_a_template_are_one_class() -> None:
    assert template_key(PodInfo(pod("a", cpu="1"))) == template_key(PodInfo(pod("b", cpu="1", nominated="n")))


def test_whatever_a_hint_may_look_at_makes_another_class() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    variants: list[dict[str, Any]] = [
        {},
        {"namespace": "other"},
        {"labels": {"a": "b"}},
        {"annotations": {"a": "b"}},
        {"cpu": "1"},
        {"priority": 1},
        {"owner": owner},
    ]
    assert len({template_key(PodInfo(pod("a", **variant))) for variant in variants}) == len(variants)


def test_a_pod_with_claims_named_after_itself_is_a_class_of_its_own() -> None:
    ephemeral = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    assert template_key(PodInfo(pod("a", volumes=[ephemeral]))) is None
