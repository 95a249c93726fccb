"""The simulated world itself: what it does to commands, and that it notices what must not be."""

import msgspec
import pytest

from scheduler.errors import InvariantViolation
from scheduler.messages.commands import BindPod
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.kinds import Kind
from scheduler.simulate.world import World
from scheduler.simulate.world_facts import Document, Refused
from scheduler.simulate.world_trouble import Trouble
from scheduler.simulate.world_writes import Writes
from scheduler.testing.documents import node_json, pod_json
from tests.simulation.runs import engines, world


def with_node(made: World, name: str = "n1", cpu: int = 4) -> World:
    made.create(Kind.NODE, node_json(name, cpu=str(cpu)))
    return made


def uid_of(made: World, key: str) -> str:
    return str((made.facts.get(Kind.POD, key) or {})["metadata"]["uid"])


def phase_of(made: World, key: str) -> str:
    return str((made.facts.get(Kind.POD, key) or {})["status"]["phase"])


def test_a_pod_is_bound_and_then_runs() -> None:
    made = with_node(world())
    key = made.create(Kind.POD, pod_json("a", cpu="500m"))
    assert made.run_until(lambda: made.bound() == {key: "n1"}, 5)
    assert made.run_until(lambda: phase_of(made, key) == "Running", 5)
    made.check()


@pytest.mark.parametrize("trouble", [Trouble(refused=1.0), Trouble(unanswered=1.0)], ids=["refused", "unanswered"])
def test_a_pod_whose_binds_went_wrong_is_bound_once_things_go_well(trouble: Trouble) -> None:
    made = with_node(world(trouble=trouble))
    key = made.create(Kind.POD, pod_json("a", cpu="500m"))
    made.run_for(30)
    made.check()
    made.trouble = Trouble()
    assert made.run_until(lambda: made.bound() == {key: "n1"}, 60)
    made.run_for(10)
    made.check()


def test_a_more_important_pod_gets_room_made_for_it() -> None:
    made = with_node(world(), cpu=1)
    victim = made.create(Kind.POD, pod_json("low", cpu="800m"))
    made.run_until(lambda: victim in made.bound())
    preemptor = made.create(Kind.POD, pod_json("high", cpu="800m", priority=10))
    assert made.run_until(lambda: made.bound() == {preemptor: "n1"}, 60)
    assert [event.reason for event in made.events if event.regarding.key == victim][-1] == "Preempted"
    made.check()


def test_a_pod_that_waits_is_bound_when_a_node_comes() -> None:
    made = world()
    key = made.create(Kind.POD, pod_json("a", cpu="500m"))
    made.run_for(60)
    assert made.pending() == [key]
    with_node(made)
    assert made.run_until(lambda: key in made.bound(), 20)


def test_a_deletion_that_the_watch_missed_frees_its_room() -> None:
    made = with_node(world(), cpu=1)
    first = made.create(Kind.POD, pod_json("first", cpu="800m"))
    made.run_until(lambda: phase_of(made, first) == "Running")
    made.run_for(1)
    second = made.create(Kind.POD, pod_json("second", cpu="800m"))
    made.run_for(5)
    made.facts.remove(Kind.POD, first)
    made.break_watch(Kind.POD)
    assert made.run_until(lambda: second in made.bound(), 20)
    made.check()


def test_a_restart_in_the_middle_of_it_all_loses_no_pod() -> None:
    made = with_node(world(), cpu=8)
    keys = {made.create(Kind.POD, pod_json(f"a-{number}", cpu="100m")) for number in range(10)}
    made.run_for(0.03)
    made.restart()
    assert made.run_until(lambda: made.bound().keys() == keys, 20)
    made.check()


def test_an_over_committed_node_is_noticed() -> None:
    made = with_node(world(), cpu=1)
    for name in ("a", "b"):
        key = made.create(Kind.POD, pod_json(name, cpu="800m", scheduler="another"))
        made.facts.bind(key, uid_of(made, key), "n1", made.time)
    with pytest.raises(InvariantViolation, match="node n1 has 1000 cpu, pods take 1600"):
        made.check()


def test_a_pod_that_the_queue_forgot_is_noticed() -> None:
    made = world()
    key = made.create(Kind.POD, pod_json("a", cpu="500m"))
    made.run_for(1)
    record = made.engine.queue.find(key)
    assert record is not None
    made.engine.queue.delete(record.info)
    with pytest.raises(InvariantViolation, match="nowhere in the queue"):
        made.check()


def test_a_second_binding_of_a_pod_is_noticed() -> None:
    made = with_node(world())
    key = made.create(Kind.POD, pod_json("a", cpu="500m"))
    made.run_until(lambda: phase_of(made, key) == "Running")
    again = BindPod(99, PodReference("default", "a", uid_of(made, key)), "n1")
    with pytest.raises(InvariantViolation, match="bound again"):
        made.send(again)


def test_the_facts_refuse_a_binding_of_a_pod_that_has_a_node() -> None:
    made = with_node(world())
    key = made.create(Kind.POD, pod_json("a", cpu="500m"))
    made.facts.bind(key, uid_of(made, key), "n1", made.time)
    with pytest.raises(Refused, match="already assigned") as caught:
        made.facts.bind(key, uid_of(made, key), "n1", made.time)
    assert caught.value.status == 409


def test_a_uid_of_another_pod_of_that_name_is_a_conflict() -> None:
    made = world()
    key = made.create(Kind.POD, pod_json("a", cpu="500m"))
    with pytest.raises(Refused) as caught:
        made.facts.delete_pod(key, "uid-of-before", made.time)
    assert caught.value.status == 409


def test_an_eviction_spends_its_budget_and_is_refused_when_nothing_is_left() -> None:
    made = with_node(world())
    budget: Document = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 1},
    }
    made.create(Kind.POD_DISRUPTION_BUDGET, budget)
    keys = [made.create(Kind.POD, pod_json(f"a-{number}", cpu="500m", labels={"app": "a"})) for number in range(2)]
    made.facts.evict_pod(keys[0], uid_of(made, keys[0]), made.time)
    with pytest.raises(Refused, match="disruption budget") as caught:
        made.facts.evict_pod(keys[1], uid_of(made, keys[1]), made.time)
    assert caught.value.status == 429


# --- binds that the API server commits after their time-out -----------------------------------------------------------

LATE = Trouble(unanswered=0.5, late_seconds=(0.0, 5.0))
LATE_AND_REFUSED = Trouble(refused=0.3, unanswered=0.5, late_seconds=(5.0, 20.0))


class TimeOutIsFailure(Writes):
    """A writer that calls a bind without an answer failed, as it was before."""

    def bind_outcome(self, command: BindPod, refused: Refused | None) -> WriteFinished:
        outcome = super().bind_outcome(command, refused)
        return msgspec.structs.replace(outcome, is_unknown=False)


class UnderThatWriter(World):
    WRITES = TimeOutIsFailure


def crowded(made: World) -> None:
    """More pods than fit, and many binds without an answer: room that is given away too early is taken twice."""
    for number in range(4):
        made.create(Kind.NODE, node_json(f"n{number}", cpu="2"))
    for number in range(24):
        made.create(Kind.POD, pod_json(f"p{number:02}", cpu="1"))
    for _ in range(120):
        made.run_for(0.5)
        made.check()


@pytest.mark.parametrize("trouble", [LATE, LATE_AND_REFUSED], ids=["late", "late, and refused when sent again"])
@pytest.mark.parametrize("seed", range(5))
def test_no_room_is_given_away_while_the_outcome_of_a_bind_is_unknown(seed: int, trouble: Trouble) -> None:
    made = world(seed, trouble)
    crowded(made)
    made.trouble = Trouble()
    made.run_for(60)
    made.check()
    assert len(made.bound()) == 8
    assert not made.engine.cache.assumed_count


def test_calling_such_a_bind_failed_commits_a_node_twice_over() -> None:
    def some() -> None:
        for seed in range(5):
            crowded(UnderThatWriter(seed, engines(), LATE))

    with pytest.raises(InvariantViolation, match=r"node n\d has 2000 cpu, pods take 3000"):
        some()
