"""The scheduling loop with a real engine of a few lines."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from scheduler.controller.inbox import Inbox
from scheduler.controller.loop import SLICE_SECONDS, SchedulingLoop
from scheduler.engine.commands import Command, RecordAttempt
from scheduler.framework.plugin_ports import WaitingPod
from scheduler.messages.commands import BindPod, ReportProblem
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, PodsActivated, Stimulus, Tick, WakingContinued
from scheduler.objects.kinds import Kind
from scheduler.testing.objects import node, pod
from tests.controller.conftest import until
from tests.controller.round_robin_engine import NAME, RoundRobinEngine


@asynccontextmanager
async def looping(loop: SchedulingLoop) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(loop.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pods(count: int) -> list[Stimulus]:
    return [ObjectObserved(Kind.POD, pod(f"p{number}", spec={"schedulerName": NAME})) for number in range(count)]


async def test_pods_that_are_fed_are_decided_in_order() -> None:
    commands: list[Command] = []
    inbox = Inbox()
    loop = SchedulingLoop(RoundRobinEngine(), inbox, commands.append, lambda _: True)
    inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), *pods(3)])
    async with looping(loop):
        await until(lambda: loop.counts.steps == 3)
    assert [command.pod.name for command in commands if isinstance(command, BindPod)] == ["p0", "p1", "p2"]


async def test_the_inbox_is_empty_when_everything_in_it_has_been_applied() -> None:
    engine, inbox = RoundRobinEngine(), Inbox()
    loop = SchedulingLoop(engine, inbox, lambda _: None, lambda _: False)
    inbox.put_all(pods(2))
    async with looping(loop):
        assert len(inbox) == 2
        async with asyncio.timeout(5):
            await inbox.emptied()
        assert (len(inbox), len(engine.pending)) == (0, 2)


async def test_what_a_stimulus_brings_into_the_inbox_is_applied_after_what_was_there() -> None:
    """A part may answer a command at once, in the middle of the engine's step (a shadow does)."""
    inbox = Inbox()
    answers = [ObjectObserved(Kind.POD, pod("answer", spec={"schedulerName": NAME}))]

    class Answering(RoundRobinEngine):
        def handle(self, stimulus: Stimulus, now: Now) -> Sequence[Command]:
            if answers:
                inbox.put(answers.pop())
            return super().handle(stimulus, now)

    engine = Answering()
    loop = SchedulingLoop(engine, inbox, lambda _: None, lambda _: False)
    inbox.put_all(pods(2))
    async with looping(loop):
        await until(lambda: len(engine.pending) == 3)
    assert [one.name for one in engine.pending] == ["p0", "p1", "answer"]


async def test_what_has_arrived_is_applied_before_a_pod_is_taken() -> None:
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here)
    commands: list[Command] = []
    inbox = Inbox()
    loop = SchedulingLoop(RoundRobinEngine(), inbox, commands.append, lambda _: True)

    async def watch_of_nodes() -> None:
        await reader.readline()
        inbox.put_all([ObjectObserved(Kind.NODE, node("n1"))])

    watching = asyncio.create_task(watch_of_nodes())
    async with looping(loop):
        await until(lambda: loop.counts.slices >= 1)
        # The node's line is in its socket when the pod's has just been read from another one.
        there.send(b"a node\n")
        inbox.put_all(pods(1))
        await until(lambda: loop.counts.steps == 1)
    await watching
    assert [command.node for command in commands if isinstance(command, BindPod)] == ["n1"]
    writer.close()
    there.close()


async def test_the_commands_of_a_slice_leave_together_and_take_up_room_before() -> None:
    asked: list[int] = []
    bound_after: list[int] = []

    def may_pop(pods_before: int) -> bool:
        asked.append(pods_before)
        return pods_before < 2

    def dispatch(command: Command) -> None:
        if isinstance(command, BindPod):
            bound_after.append(loop.counts.steps)

    inbox = Inbox()
    loop = SchedulingLoop(RoundRobinEngine(), inbox, dispatch, may_pop, clock=lambda: Now(0.0, 0))
    inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), *pods(3)])
    async with looping(loop):
        await until(lambda: len(bound_after) == 3)
    assert bound_after == [2, 2, 3]
    assert asked[:4] == [0, 1, 2, 0]


async def test_what_follows_from_the_commands_of_stimuli_holds_for_the_decisions_after_them() -> None:
    class Reporting(RoundRobinEngine):
        def handle(self, stimulus: Stimulus, now: Now) -> Sequence[Command]:
            is_node = isinstance(stimulus, ObjectObserved) and stimulus.kind is Kind.NODE
            return [*super().handle(stimulus, now), *([ReportProblem("a node")] if is_node else [])]

    bound: list[str] = []

    def dispatch(command: Command) -> None:
        if isinstance(command, ReportProblem):
            inbox.put(ObjectDeleted(Kind.NODE, node("n1")))
        elif isinstance(command, BindPod):
            bound.append(command.node)

    inbox = Inbox()
    loop = SchedulingLoop(Reporting(), inbox, dispatch, lambda _: True)
    inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), *pods(1)])
    async with looping(loop):
        await until(lambda: loop.counts.steps == 1)
    assert bound == []


async def test_nothing_is_taken_before_it_is_allowed_and_a_wake_is_enough_to_begin() -> None:
    is_allowed = False
    inbox = Inbox()
    loop = SchedulingLoop(RoundRobinEngine(), inbox, lambda _: None, lambda _: is_allowed)
    async with looping(loop):
        inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), *pods(2)])
        await until(lambda: loop.counts.slices >= 2)
        assert loop.counts.steps == 0
        is_allowed = True
        inbox.wake()
        await until(lambda: loop.counts.steps == 2)


async def test_after_stop_popping_stimuli_are_applied_and_no_pod_is_taken() -> None:
    engine = RoundRobinEngine()
    inbox = Inbox()
    loop = SchedulingLoop(engine, inbox, lambda _: None, lambda _: True)
    async with looping(loop):
        loop.stop_popping()
        loop.stop_popping()
        inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), *pods(2)])
        await until(lambda: len(engine.pending) == 2)
        applied = loop.counts.slices
        await until(lambda: loop.counts.slices > applied)
    assert engine.is_shut_down
    assert len(engine.pending) == 2
    assert loop.counts.steps == 0


async def test_a_pod_that_breaks_the_engine_stops_neither_the_loop_nor_the_others(
    log_lines: list[dict[str, Any]],
) -> None:
    class Fragile(RoundRobinEngine):
        def waiting_pods(self, plugin: str) -> Sequence[WaitingPod]:
            return ()

        def schedule_one(self, now: Now) -> Sequence[Command] | None:
            if self.pending and self.pending[0].name == "p1":
                self.pending.popleft()
                raise RuntimeError("a bug")
            return super().schedule_one(now)

        def handle(self, stimulus: Stimulus, now: Now) -> Sequence[Command]:
            if isinstance(stimulus, PodsActivated | ObjectDeleted):
                raise RuntimeError("another bug")
            return super().handle(stimulus, now)

    inbox = Inbox()
    loop = SchedulingLoop(Fragile(), inbox, lambda _: None, lambda _: True)
    async with looping(loop):
        there, gone = ObjectObserved(Kind.NODE, node("n1")), ObjectDeleted(Kind.NODE, node("n2"))
        inbox.put_all([there, gone, PodsActivated(["x"]), *pods(3)])
        await until(lambda: loop.counts.steps == 2)
    assert loop.counts.errors == 3
    said = [line for line in log_lines if line["event"] == "Stimulus could not be applied"]
    assert [(line["stimulus"], line["object"]) for line in said] == [("ObjectDeleted", "n2"), ("PodsActivated", "")]


async def test_work_is_cut_into_slices_so_that_others_have_their_turn() -> None:
    ticks = itertools.count()

    def clock() -> Now:
        """Each look at the clock is a ninth of a slice later."""
        return Now(next(ticks) * SLICE_SECONDS / 9, 0)

    inbox = Inbox()
    loop = SchedulingLoop(RoundRobinEngine(), inbox, lambda _: None, lambda _: True, clock=clock)
    inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), *pods(50)])
    steps: list[int] = []

    async def other_task() -> None:
        while loop.counts.steps < 50:
            steps.append(loop.counts.steps)
            await asyncio.sleep(0)

    async with looping(loop):
        await other_task()
    assert max(after - before for before, after in itertools.pairwise(steps)) <= 10


async def test_a_deadline_brings_a_tick() -> None:
    class Waiting(RoundRobinEngine):
        deadline: float | None = None
        ticked: float | None = None

        def next_deadline(self) -> float | None:
            return self.deadline

        def handle(self, stimulus: Stimulus, now: Now) -> Sequence[Command]:
            if isinstance(stimulus, Tick):
                self.ticked, self.deadline = now.monotonic, None
            return super().handle(stimulus, now)

    engine = Waiting()
    inbox = Inbox()
    loop = SchedulingLoop(engine, inbox, lambda _: None, lambda _: True)
    async with looping(loop):
        await until(lambda: loop.counts.slices >= 1)
        engine.deadline = deadline = asyncio.get_running_loop().time() + 0.02
        inbox.wake()
        await until(lambda: engine.ticked is not None)
    assert engine.ticked is not None
    assert engine.ticked >= deadline


async def test_buffers_are_flushed_when_a_slice_ends() -> None:
    commands: list[Command] = []
    flushed: list[int] = []
    inbox = Inbox()
    loop = SchedulingLoop(
        RoundRobinEngine(), inbox, commands.append, lambda _: True, after_slice=lambda: flushed.append(len(commands))
    )
    inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), *pods(1)])
    async with looping(loop):
        await until(lambda: bool(flushed))
    assert flushed[0] == len(commands) == 2
    assert isinstance(commands[1], RecordAttempt)


async def test_a_stimulus_that_takes_long_is_counted_and_named(log_lines: list[dict[str, Any]]) -> None:
    seconds = 0.0

    class Slow(RoundRobinEngine):
        def handle(self, stimulus: Stimulus, now: Now) -> Sequence[Command]:
            nonlocal seconds
            seconds += 0.2 if isinstance(stimulus, PodsActivated) else 0.0
            return super().handle(stimulus, now)

    inbox = Inbox()
    loop = SchedulingLoop(Slow(), inbox, lambda _: None, lambda _: True, clock=lambda: Now(seconds, 0))
    began = time.time()
    async with looping(loop):
        inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), PodsActivated(["x"])])
        await until(lambda: loop.steps.slow_steps == 1)
    assert loop.steps.longest_seconds == 0.2
    assert began <= loop.steps.longest_at <= time.time()
    (line,) = [line for line in log_lines if line["event"].startswith("Step was slow")]
    assert (line["step"], line["seconds"]) == ("PodsActivated", 0.2)


async def test_a_slow_decision_is_named_by_its_pod(log_lines: list[dict[str, Any]]) -> None:
    seconds = 0.0

    class Slow(RoundRobinEngine):
        def schedule_one(self, now: Now) -> Sequence[Command] | None:
            nonlocal seconds
            commands = super().schedule_one(now)
            seconds += 0.2 if commands else 0.0
            return commands

    inbox = Inbox()
    loop = SchedulingLoop(
        Slow(),
        inbox,
        lambda _: None,
        lambda _: True,
        clock=lambda: Now(seconds, 0),
        culprit=lambda: {"pod": "default/p0"},
    )
    async with looping(loop):
        inbox.put_all([ObjectObserved(Kind.NODE, node("n1")), *pods(1)])
        await until(lambda: loop.steps.slow_steps == 1)
    (line,) = [line for line in log_lines if line["event"].startswith("Step was slow")]
    assert (line["step"], line["pod"]) == ("decision", "default/p0")


async def test_an_inbox_says_whether_there_was_news_before_the_time_was_over() -> None:
    inbox = Inbox()
    assert not await inbox.news(0.0)
    inbox.noted()
    inbox.wake()
    assert await inbox.news(5.0)
    inbox.noted()
    waiting = asyncio.create_task(inbox.news(5.0))
    await asyncio.sleep(0)
    inbox.put_all(pods(1))
    assert await waiting


async def test_what_may_wait_is_done_when_nothing_happens() -> None:
    idle: list[int] = []
    engine, inbox = RoundRobinEngine(), Inbox()
    loop = SchedulingLoop(engine, inbox, lambda _: None, lambda _: True)
    loop.when_idle = lambda: idle.append(len(inbox))
    inbox.put_all(pods(3))
    async with looping(loop):
        await until(lambda: bool(idle))
    assert idle[0] == 0
    assert loop.counts.beat > 0.0


class LongSearch(RoundRobinEngine):
    """An attempt that takes four steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.left = 0

    @property
    def is_waking(self) -> bool:
        return self.left > 0

    def schedule_one(self, now: Now) -> Sequence[Command] | None:
        if self.steps:
            return None
        self.steps.append("attempt")
        self.left = 3
        return ()

    def handle(self, stimulus: Stimulus, now: Now) -> Sequence[Command]:
        self.steps.append(type(stimulus).__name__)
        if isinstance(stimulus, WakingContinued):
            self.left -= 1
        return ()


async def test_an_attempt_that_pauses_is_finished_before_anything_is_applied_and_others_have_their_turn() -> None:
    engine, inbox = LongSearch(), Inbox()
    turns: list[int] = []

    def pause() -> None:
        turns.append(engine.left)
        if len(turns) == 1:
            inbox.put(PodsActivated(("default/p",)))

    loop = SchedulingLoop(engine, inbox, lambda _: None, lambda _: True, after_slice=pause)
    async with looping(loop):
        await until(lambda: "PodsActivated" in engine.steps)
    assert engine.steps == ["attempt", *["WakingContinued"] * 3, "PodsActivated"]
    assert turns[0] == 3
