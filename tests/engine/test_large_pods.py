"""What one pod at the limit of an object's size costs: its attempt, its page, its group's attempt."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.driving import run_in_steps
from scheduler.engine.explain import pod_page, pod_page_in_slices
from scheduler.engine.group_cycle import forked
from scheduler.engine.recording.outcome import outcome_of
from scheduler.engine.scheduling_cycle import place_on
from scheduler.messages.commands import BindPod
from scheduler.messages.stimuli import Tick
from scheduler.objects.steps import run_to_end
from scheduler.objects.storage import NO_PROVISIONER
from scheduler.plugins.spread.args import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY
from scheduler.testing.fragments import affinity_json, pod_term
from tests import builders
from tests.engine.driver import Cluster
from tests.engine.test_long_searches import finished_by, in_slices, with_terms
from tests.plugins.test_rows_touched import counted


def spreading(number: int, when: str, *, keys_are_there: bool) -> Cluster:
    """Two nodes, one of which has a pod that the constraints count."""
    made = Cluster()
    keys = {f"key-{each}": "x" for each in range(number)} if keys_are_there else {}
    for each in range(2):
        made.node(f"n{each}", labels=keys | {"kubernetes.io/hostname": f"n{each}"})
    made.pod("there", node="n0", labels={"app": "web"})
    written = [
        {
            "maxSkew": 1,
            "topologyKey": f"key-{each}" if each else "kubernetes.io/hostname",
            "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": f"app-{each}" if each else "web"}},
        }
        for each in range(number)
    ]
    made.pod("large", labels={"app": "web"}, spec={"topologySpreadConstraints": written})
    return made


@pytest.mark.parametrize("when", [DO_NOT_SCHEDULE, SCHEDULE_ANYWAY])
def test_many_spread_constraints_are_counted_without_driving_out_the_counters_of_others(when: str) -> None:
    made = spreading(2_000, when, keys_are_there=True)
    whole = finished_by(spreading(2_000, when, keys_are_there=True), Tick())
    before = len(made.engine.cache.pod_counts)
    commands, pauses = in_slices(made)
    assert outcome_of(commands) == outcome_of(whole)
    [binding] = [command for command in commands if isinstance(command, BindPod)]
    assert binding.node == "n1"
    assert pauses >= 8
    assert len(made.engine.cache.pod_counts) == before


def test_constraints_of_keys_that_no_node_has_refuse_all_nodes_and_are_not_counted_one_by_one() -> None:
    def lines(number: int) -> int:
        made = spreading(number, DO_NOT_SCHEDULE, keys_are_there=False)
        with counted() as found:
            commands, _ = in_slices(made)
        assert "2 node(s) didn't match pod topology spread constraints" in str(commands)
        return found.count

    assert lines(3_000) - lines(1_000) < 2_000 * 150


def test_required_affinity_of_very_many_requirements_in_one_term_is_looked_up_once_a_key() -> None:
    def lines(number: int) -> int:
        made = Cluster()
        made.nodes_like(3)
        parts = [{"key": f"key-{each}", "operator": "DoesNotExist"} for each in range(number)]
        required = {"nodeSelectorTerms": [{"matchExpressions": parts}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        made.pod("large", spec={"affinity": affinity})
        with counted() as found:
            commands, _ = in_slices(made)
        assert any(isinstance(command, BindPod) for command in commands)
        return found.count

    assert lines(3_000) - lines(2_000) < 1_000 * 40


def test_the_page_of_a_large_pod_is_made_in_slices_as_at_once() -> None:
    made = with_terms(1_000)
    for name in ("n0", "n1"):
        made.node(name, taints=["a=b:NoSchedule"])
    in_slices(made)
    pauses = len(list(pod_page_in_slices(made.engine, "default/large", made.now)))
    assert pauses >= 20
    assert run_to_end(pod_page_in_slices(made.engine, "default/large", made.now)) == pod_page(
        made.engine, "default/large", made.now
    )


def test_no_step_of_the_page_of_a_pod_that_was_never_tried_grows_with_its_terms() -> None:
    def longest(number: int) -> int:
        made = Cluster()
        made.nodes_like(2)
        terms = [pod_term({"app": f"app-{each}"}) for each in range(number)]
        made.pod("large", spec={"affinity": affinity_json(anti_required=terms)})
        slices = pod_page_in_slices(made.engine, "default/large", made.now)
        steps: list[int] = []
        while not steps or steps[-1] > 0:
            with counted() as found:
                ended = next(slices, slices) is slices
            steps.append(0 if ended else found.count)
        return max(steps)

    assert longest(16_000) < 1.5 * longest(8_000)


def test_the_page_of_a_large_pod_is_of_the_nodes_as_they_were_when_it_was_asked_for() -> None:
    made = with_terms(1_000)
    for name in ("n0", "n1"):
        made.node(name, taints=["a=b:NoSchedule"])
    in_slices(made)
    slices = pod_page_in_slices(made.engine, "default/large", made.now)
    next(slices)
    made.node("n2")
    page: Any = run_to_end(slices)
    assert page["preview"]["nodes"] == 2
    assert not page["preview"]["fits"]


def claiming(labels: int) -> Cluster:
    """A pod whose claim wants this many labels of its volume."""
    made = Cluster()
    made.nodes_like(2)
    made.show(builders.storage_class("static", NO_PROVISIONER))
    made.show(builders.volume("free", storage_class="static", labels={f"key-{n}": "v" for n in range(labels)}))
    selector = {"matchLabels": {f"key-{number}": "v" for number in range(labels)}}
    made.show(builders.claim("data", storage_class="static", spec={"selector": selector}))
    made.pod("p", claims=["data"])
    return made


def test_an_attempt_at_a_pod_whose_claim_is_large_pauses_and_so_does_its_page() -> None:
    made = claiming(20_000)
    assert list(pod_page_in_slices(made.engine, "default/p", made.now)) != []
    made = claiming(20_000)
    commands, pauses = in_slices(made)
    assert pauses >= 5
    assert outcome_of(commands) == outcome_of(finished_by(claiming(20_000), Tick()))
    assert made.engine.cache.volumes.reservation(made.uid("p")) is not None


def test_the_page_of_a_pod_of_common_size_is_one_step() -> None:
    made = Cluster()
    made.node("n0", cpu="0")
    made.pod("p")
    made.schedule()
    assert list(pod_page_in_slices(made.engine, "default/p", made.now)) == []


def test_the_page_of_a_pod_lists_the_first_of_very_many_reasons() -> None:
    made = Cluster()
    made.nodes_like(2)
    made.pod("p", requests={f"example.com/r-{number}": "1" for number in range(200)})
    made.schedule()
    page: Any = pod_page(made.engine, "default/p", made.now)
    for entry in (page["attempt"]["refusals"][0], page["preview"]["refusals"][0], page["preview"]["listed"][0]):
        assert len(entry["reasons"]) == 51
        assert entry["reasons"][-1] == "and 150 more reasons"


def test_a_large_member_of_a_gang_is_counted_in_slices_when_it_takes_its_place() -> None:
    made = Cluster()
    made.nodes_like(2)
    terms = [pod_term({"app": f"app-{each}"}) for each in range(8_000)]
    made.pod("large", spec={"affinity": affinity_json(anti_required=terms)})
    context = forked(made.engine.cycles.fork(Random(0)))
    [profile] = made.engine.profiles.values()
    info = PodInfo(made.pods["default/large"])
    attempt = Attempt(info.key, info.uid, profile.scheduler_name, number=0, started_wall=0)
    placing = run_in_steps(place_on(context, profile, info, attempt, made.now, "n1", is_checked=True))
    assert len(list(placing)) >= 25
    assert context.cache.assumed_count == 1
