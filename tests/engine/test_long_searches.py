"""A long search for devices, and an attempt at a large pod, are tried in slices, with the outcome of one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.engine.commands import Command
from scheduler.engine.engine import Engine
from scheduler.engine.recording.outcome import outcome_of
from scheduler.messages.commands import BindPod, CallExtender
from scheduler.messages.stimuli import ShutdownRequested, Stimulus, Tick, WakingContinued
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.testing.objects import build
from tests.device_documents import claim, device_class, exactly, gpu, resource_slice
from tests.engine.driver import Cluster
from tests.plugins.test_rows_touched import counted

TEXT = 'running "DynamicResources" filter plugin'


def cluster(wanted: int) -> Cluster:
    """Three nodes of eight devices that look different on each, and a pod that asks for ``wanted`` devices one by one:
    with nine there is no solution, and a long search."""
    arguments = {"name": "DynamicResources", "args": {"filterTimeout": "100ms"}}
    made = Cluster(profile={"pluginConfig": [arguments]})
    made.nodes_like(3)
    made.show(build(DeviceClass, device_class("gpus", "true")))
    for node in ("n0", "n1", "n2"):
        gpus = [gpu(f"gpu-{place}", attributes={"of": node}) for place in range(8)]
        made.show(build(ResourceSlice, resource_slice(node, *gpus)))
    requests: list[dict[str, Any]] = [{"name": f"r{place}", "exactly": exactly("gpus")} for place in range(wanted)]
    made.show(build(ResourceClaim, claim("wanted", requests=requests)))
    made.pod("hard", spec={"resourceClaims": [{"name": "gpus", "resourceClaimName": "wanted"}]})
    return made


def in_slices(cluster: Cluster, between: Callable[[Engine], object] = lambda _: None) -> tuple[list[Command], int]:
    """The commands of one attempt, and how often it has paused."""
    engine, now = cluster.engine, cluster.now
    commands, pauses = list(engine.schedule_one(now) or ()), 0
    while engine.is_waking:
        between(engine)
        cluster.time += 1.0
        commands += engine.handle(WakingContinued(), cluster.now)
        pauses += 1
    cluster.time -= pauses
    return commands, pauses


def finished_by(cluster: Cluster, stimulus: Stimulus) -> list[Command]:
    """The commands of an attempt of which an input that comes in its first pause is not kept waiting."""
    commands = list(cluster.engine.schedule_one(cluster.now) or ())
    assert cluster.engine.is_waking
    return commands + cluster.engine.handle(stimulus, cluster.now)


def test_an_attempt_in_slices_ends_as_in_one_step() -> None:
    whole = finished_by(cluster(9), Tick())
    commands, pauses = in_slices(cluster(9))
    assert 3 <= pauses <= 10
    assert outcome_of(commands) == outcome_of(whole)
    assert any(TEXT in str(command) for command in commands)


def test_nothing_is_said_of_the_pod_before_the_search_is_over() -> None:
    hard = cluster(9)
    assert hard.engine.schedule_one(hard.now) == []
    assert hard.engine.is_paused
    assert hard.engine.handle(WakingContinued(), hard.now) == []
    hard.engine.check()


def test_a_preview_in_a_pause_changes_nothing() -> None:
    hard, asked = cluster(9), cluster(9)
    pod = asked.pods["default/hard"]
    whole, _ = in_slices(hard)
    commands, pauses = in_slices(asked, lambda engine: engine.preview(pod, asked.now))
    assert pauses >= 3
    assert outcome_of(commands) == outcome_of(whole)


def test_another_pods_preview_in_a_pause_does_not_lend_its_claims_to_the_search() -> None:
    hard, asked = cluster(9), cluster(9)
    asked.show(build(ResourceClaim, claim("easy", "gpus")))
    asked.pod("easy", spec={"resourceClaims": [{"name": "gpus", "resourceClaimName": "easy"}]}, node="n0")
    easy = asked.pods["default/easy"]
    whole, _ = in_slices(hard)
    commands, _ = in_slices(asked, lambda engine: engine.preview(easy, asked.now))
    assert [type(command) for command in commands] == [type(command) for command in whole]
    assert any(TEXT in str(command) for command in commands)


def test_a_stop_finishes_the_search_first() -> None:
    hard = cluster(9)
    commands = finished_by(hard, ShutdownRequested())
    assert any(TEXT in str(command) for command in commands)
    hard.engine.check()


def with_terms(number: int, **configuration: Any) -> Cluster:
    """Two nodes, and a pod with this many preferred terms of inter-pod affinity."""
    made = Cluster(configuration=configuration)
    made.nodes_like(2)
    made.pod("near", labels={"app": "app-7"}, node="n1")
    terms = [
        {
            "weight": 1,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": f"app-{each}"}},
            },
        }
        for each in range(number)
    ]
    made.pod("large", spec={"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
    return made


def test_an_attempt_at_a_large_pod_pauses_between_its_steps_and_ends_as_in_one() -> None:
    whole = finished_by(with_terms(1_000), Tick())
    commands, pauses = in_slices(with_terms(1_000))
    assert pauses == 9
    assert outcome_of(commands) == outcome_of(whole)
    [binding] = [command for command in commands if isinstance(command, BindPod)]
    assert binding.node == "n1"


def test_an_attempt_at_a_pod_of_common_size_does_not_pause() -> None:
    commands, pauses = in_slices(with_terms(100))
    assert pauses == 0
    assert any(isinstance(command, BindPod) for command in commands)


def test_a_large_pod_of_which_an_extender_was_asked_goes_on_after_the_answer() -> None:
    extender = {"urlPrefix": "http://e.test", "nodeCacheCapable": True, "filterVerb": "filter"}
    large = with_terms(1_000, extenders=[extender])
    for _ in range(5):
        large.schedule()
        while large.engine.is_waking:
            large.feed(WakingContinued())
    large.answer(large.write(CallExtender), {"NodeNames": ["n0", "n1"]})
    assert large.engine.is_waking
    large.pod("next")
    large.schedule()
    assert large.write(BindPod, "large").node == "n1"
    large.engine.check()


def test_an_attempt_pauses_the_oftener_the_more_terms_there_are() -> None:
    _, few = in_slices(with_terms(1_000))
    _, many = in_slices(with_terms(8_000))
    assert many >= few + 20


def test_a_large_pods_terms_get_no_counters_that_drive_out_those_of_others() -> None:
    large = with_terms(2_000)
    large.engine.schedule_one(large.now)
    large.engine.handle(Tick(), large.now)
    assert len(large.engine.cache.pod_counts) == 0


def test_nothing_is_parsed_when_a_pod_is_observed() -> None:
    def lines(terms: int) -> int:
        made = Cluster()
        each = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [each] * terms}}
        with counted() as found:
            made.pod("large", spec={"affinity": {"nodeAffinity": required}})
        return found.count

    assert lines(3_000) - lines(30) < 3_000


def with_node_terms(number: int, list_: str) -> Cluster:
    """Three nodes, and a pod with this many terms that the last of them alone meets."""
    made = Cluster()
    for each, rank in enumerate((1, 5, 10**9)):
        made.node(f"n{each}", labels={"rank": str(rank)})
    terms = [
        {"matchExpressions": [{"key": "rank", "operator": "NotIn", "values": ["1", "5", str(10 + each)]}]}
        for each in range(number)
    ]
    if list_ == "required":
        listed: Any = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    else:
        preferred = [{"weight": 1, "preference": term} for term in terms]
        listed = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    made.pod("large", spec={"affinity": {"nodeAffinity": listed}})
    return made


@pytest.mark.parametrize("list_", ["required", "preferred"])
def test_node_affinity_terms_are_looked_up_in_slices_as_at_once(list_: str) -> None:
    whole = finished_by(with_node_terms(4_000, list_), Tick())
    commands, many = in_slices(with_node_terms(4_000, list_))
    assert outcome_of(commands) == outcome_of(whole)
    [binding] = [command for command in commands if isinstance(command, BindPod)]
    assert binding.node == "n2"
    _, few = in_slices(with_node_terms(1_000, list_))
    assert many >= few + 9


def test_what_was_looked_up_for_a_waiting_pod_does_not_outlive_a_change_of_its_nodes() -> None:
    made = with_node_terms(4_000, "required")
    made.node("n2", labels={"rank": "5"})
    commands, _ = in_slices(made)
    assert not any(isinstance(command, BindPod) for command in commands)
    made.time += 60.0
    made.node("n1", labels={"rank": "7000"})
    made.settle()
    assert made.node_of("large") == "n1"
