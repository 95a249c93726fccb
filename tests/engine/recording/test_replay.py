"""Simulated clusters, recorded and replayed from the start and from every checkpoint."""

from __future__ import annotations

import pytest

from scheduler.config.loading import load
from scheduler.simulate.workload import RandomWorkload
from scheduler.simulate.world import World
from scheduler.simulate.world_trouble import CALM, ROUGH
from tests.engine.recording.tapes import Tapes, replay_of
from tests.simulation.runs import engines
from tests.simulation.test_random_runs import CONFIGURATIONS


def recorded(seed: int, text: str = "", steps: int = 80, entries_a_part: int = 10**9) -> tuple[World, Tapes]:
    tapes = Tapes(text, entries_a_part)
    made = World(seed, engines(load(text or None)), ROUGH, tapes.door_of)
    workload = RandomWorkload(made)
    for _ in range(steps):
        workload.step()
        made.run_for(made.random.uniform(0.0, 1.5))
    made.trouble = CALM
    workload.settle()
    made.run_for(60.0)
    return made, tapes


@pytest.mark.parametrize("seed", range(6))
def test_a_run_replays_identically_from_its_start_and_from_each_checkpoint(seed: int) -> None:
    _, tapes = recorded(seed, entries_a_part=97)
    decisions = 0
    for life in tapes.lives:
        assert life.problems == []
        for place in range(len(life.parts)):
            replay, difference = replay_of(life.parts[place:])
            assert difference is None, difference
            decisions += replay.decisions
    assert decisions > 50


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_so_it_does_however_the_scheduler_is_configured(text: str) -> None:
    _, tapes = recorded(101, text, entries_a_part=150)
    for life in tapes.lives:
        for place in range(len(life.parts)):
            assert replay_of(life.parts[place:])[1] is None
