"""One whole run of a simulated cluster: random users and trouble first, then calm until nothing moves."""

from __future__ import annotations

from scheduler.compose import build_engine
from scheduler.config.loading import Configuration, load
from scheduler.engine.engine import Engine
from scheduler.messages.now import Now
from scheduler.simulate.workload import RandomWorkload
from scheduler.simulate.world import EngineFactory, World
from scheduler.simulate.world_trouble import CALM, ROUGH, Trouble

SETTLE_SECONDS = 700.0
"""Twice the longest time that a pod waits in the pool before it is tried again without any event."""


def engines(configuration: Configuration | None = None) -> EngineFactory:
    settled = configuration or load()

    def factory(started: Now, seed: int) -> Engine:
        return build_engine(settled, started=started, seed=seed, stopwatch=lambda: 0.0)

    return factory


def world(seed: int = 1, trouble: Trouble = CALM) -> World:
    return World(seed, engines(), trouble)


def whole_run(seed: int, steps: int, configuration: Configuration | None = None) -> World:
    """Invariants are checked all along. Raises whatever breaks."""
    made = World(seed, engines(configuration), ROUGH)
    workload = RandomWorkload(made)
    for number in range(steps):
        workload.step()
        made.run_for(made.random.uniform(0.0, 1.5))
        if number % 10 == 0:
            made.check()
    made.trouble = CALM
    workload.settle()
    made.run_for(SETTLE_SECONDS)
    made.check()
    return made
