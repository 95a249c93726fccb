"""A Tick that fails, whatever is due: it is tried again, and everything else goes on meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.controller.inbox import Inbox
from scheduler.controller.loop import MAX_SLEEP_SECONDS, SchedulingLoop
from scheduler.engine.commands import Command
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectObserved, Stimulus, Tick
from scheduler.objects.kinds import Kind
from scheduler.testing.objects import node
from tests.controller.conftest import until
from tests.controller.round_robin_engine import RoundRobinEngine
from tests.controller.test_loop import looping, pods


class Failing(RoundRobinEngine):
    """What is due stays due, and each Tick fails."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks: list[float] = []

    def next_deadline(self) -> float | None:
        return 0.0

    def handle(self, stimulus: Stimulus, now: Now) -> Sequence[Command]:
        if isinstance(stimulus, Tick):
            self.ticks.append(now.monotonic)
            raise RuntimeError("a bug")
        return super().handle(stimulus, now)


async def test_a_tick_that_fails_is_tried_again_after_a_pause_and_holds_up_no_pod() -> None:
    engine, inbox = Failing(), Inbox()
    loop = SchedulingLoop(engine, inbox, lambda _: None, lambda _: True)
    async with looping(loop):
        await until(lambda: len(engine.ticks) == 1)
        inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), *pods(3)])
        await until(lambda: loop.counts.steps == 3)
        assert len(engine.ticks) == 1
        await until(lambda: len(engine.ticks) == 2)
    assert engine.ticks[1] - engine.ticks[0] >= MAX_SLEEP_SECONDS
    assert loop.counts.errors == 2
