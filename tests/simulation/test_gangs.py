"""Gangs in the simulated world: never in part because of us, no room held for ever, no two that block each other."""

from __future__ import annotations

import pytest

from scheduler.errors import InvariantViolation
from scheduler.messages.commands import BindPod
from scheduler.messages.references import PodReference
from scheduler.objects.kinds import Kind
from scheduler.simulate.world import World
from scheduler.simulate.world_facts import is_over
from scheduler.simulate.world_gangs import GangWatch, check_at_rest
from scheduler.simulate.world_trouble import CALM, ROUGH, Trouble
from scheduler.testing.documents import node_json, pod_json
from tests.engine.gangs import Gangs
from tests.simulation.runs import CASES, Run
from tests.simulation.workload import gangs_that_fit
from tests.simulation.workload_gangs import group_document, group_of, in_group


def empty(seed: int, trouble: Trouble = CALM) -> World:
    return CASES["gangs"].world(seed, trouble)


def add_gang(made: World, name: str, size: int, quorum: int | None = None) -> None:
    made.create(Kind.POD_GROUP, group_document(name, quorum or size))
    for number in range(size):
        add_member(made, name, number)


def add_member(made: World, name: str, number: int) -> None:
    made.create(Kind.POD, in_group(pod_json(f"{name}-{number}", cpu="1", memory="256Mi", labels={"app": name}), name))


def running(made: World, name: str) -> int:
    return sum(
        group_of(pod) == f"default/{name}" and bool(pod["spec"].get("nodeName")) and not is_over(pod)
        for _, pod in made.facts.of(Kind.POD)
    )


def finish(made: World, name: str) -> None:
    for key, pod in made.facts.of(Kind.POD):
        if group_of(pod) == f"default/{name}":
            made.change(Kind.POD, key, lambda document: document["status"].update(phase="Succeeded"))


@pytest.mark.parametrize("seed", range(400, 408))
@pytest.mark.parametrize("case", ["gangs", "gangs with demands"])
def test_in_the_end_every_gang_that_fits_runs_and_none_was_started_in_part(seed: int, case: str) -> None:
    run = Run(seed, CASES[case])
    run.draw(200)
    assert gangs_that_fit(run.world) == []
    check_at_rest(run.world.engine)


def test_the_runs_reach_what_they_are_there_for() -> None:
    lines = [line for seed in range(400, 403) for line in _journal(seed)]
    for wanted in (" scheduled", " unschedulable", " waiting_on_preemption"):
        assert any(line.endswith(wanted) and " group default/gang-" in line for line in lines), wanted


def _journal(seed: int) -> list[str]:
    run = Run(seed, CASES["gangs"])
    run.draw(150)
    return run.world.journal


@pytest.mark.parametrize("seed", range(10))
def test_two_gangs_that_each_need_more_than_half_run_one_after_the_other(seed: int) -> None:
    made = empty(seed, ROUGH)
    for number in range(4):
        made.create(Kind.NODE, node_json(f"node-{number}", cpu="1"))
    for name in ("a", "b"):
        made.create(Kind.POD_GROUP, group_document(name, 3))
    for number in range(3):
        for name in ("a", "b"):
            add_member(made, name, number)
            made.run_for(0.02)
    assert made.run_until(lambda: 3 in (running(made, "a"), running(made, "b")))
    first, second = ("a", "b") if running(made, "a") == 3 else ("b", "a")
    made.run_for(60)
    assert running(made, second) == 0
    finish(made, first)
    assert made.run_until(lambda: running(made, second) == 3)
    made.check()


def test_a_restart_while_a_gang_is_bound_loses_none_of_it() -> None:
    made = empty(1)
    for number in range(4):
        made.create(Kind.NODE, node_json(f"node-{number}", cpu="1"))
    add_gang(made, "a", 4)
    assert made.run_until(lambda: 0 < running(made, "a") < 4)
    made.restart()
    assert made.run_until(lambda: running(made, "a") == 4)


def test_the_condition_of_a_gang_is_written_to_its_object() -> None:
    made = empty(1)
    made.create(Kind.NODE, node_json("node", cpu="4"))
    add_gang(made, "a", 3)
    assert made.run_until(lambda: running(made, "a") == 3)
    made.run_for(5)
    conditions = (made.facts.get(Kind.POD_GROUP, "default/a") or {})["status"]["conditions"]
    assert [(one["type"], one["status"], one["reason"]) for one in conditions] == [
        ("PodGroupScheduled", "True", "Scheduled")
    ]


# --- the checks themselves --------------------------------------------------------------------------------------------


def test_a_bind_that_starts_a_gang_below_its_quorum_is_noticed() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="4")
    cluster.group(min_count=3)
    cluster.members(2, cpu="1")
    bind = BindPod(1, PodReference("default", "g0", cluster.uid("g0")), "n")
    with pytest.raises(InvariantViolation, match="0 of 3 members have places"):
        GangWatch().sends(bind, cluster.engine, cluster.time)


def test_room_that_is_still_held_at_the_end_is_noticed() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="4")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    with pytest.raises(InvariantViolation, match="hold room"):
        check_at_rest(cluster.engine)


def test_a_gang_that_waits_although_it_fits_is_noticed() -> None:
    made = empty(1)
    made.create(Kind.NODE, node_json("node", cpu="4"))
    add_gang(made, "a", 3)
    assert gangs_that_fit(made) == ["default/a"]
    made.run_for(5)
    assert gangs_that_fit(made) == []
