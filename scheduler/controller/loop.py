"""The one task that schedules: applies what is in the inbox, decides in short slices, sends what came of it, and sleeps
until there is more to do.

Everything that touches the engine is in here and is synchronous; nothing else may call the engine. An exception of one
pod or one stimulus is logged and counted and ends nothing.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Protocol

import structlog
from msgspec import Struct

from scheduler.controller.inbox import Inbox
from scheduler.controller.step_watch import StepWatch
from scheduler.engine.commands import Command
from scheduler.framework.plugin_ports import WaitingPod
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, ShutdownRequested, Stimulus, Tick, WakingContinued

SLICE_SECONDS = 0.002
"""Seconds for stimuli, and again for decisions; after each their commands leave. With 3 and 4 ms a pod costs as much or
up to 6 % less (docs/measurements.md), and everything else waits longer."""
TURNS_BEFORE_A_SLICE = 3
"""Turns of the event loop from bytes in a socket to stimuli: one reads the socket, one runs its reader, and one more
covers what was behind others in the first. They cost some 10 µs a slice."""
MAX_ROUND_SECONDS = 0.1
"""Seconds for which stimuli come first. Normally no pod is taken before the inbox is empty; in a flood of events that
lasts longer than this, pods are taken for a slice now and then."""
MAX_SLEEP_SECONDS = 1.0
"""Seconds after which an idle loop runs anyway: gauges, flushing, liveness."""

log = structlog.get_logger()


class EnginePort(Protocol):
    """The engine's interface as the shell uses it."""

    def handle(self, stimulus: Stimulus, now: Now) -> Sequence[Command]: ...

    def schedule_one(self, now: Now) -> Sequence[Command] | None:
        """Pop one pod and try it. None: no pod is ready."""
        ...

    @property
    def is_waking(self) -> bool:
        """Whether the last stimulus or attempt is not done: ``WakingContinued`` comes next."""
        ...

    def waiting_pods(self, plugin: str) -> Sequence[WaitingPod]:
        """The pods that wait for this plugin in Permit."""
        ...

    def next_deadline(self) -> float | None:
        """The monotonic second at which the next Tick is due; None without a deadline."""
        ...


@types.coroutine
def _turns(number: int) -> Generator[None, None, None]:
    """Lets the event loop turn this many times: ``asyncio.sleep(0)`` without a coroutine for each turn."""
    for _ in range(number):
        yield


def read_clock() -> Now:
    return Now(time.monotonic(), time.time_ns())


class LoopCounts(Struct):
    """For metrics and probes. ``beat`` is the monotonic time at which the loop was last seen alive."""

    steps: int = 0
    errors: int = 0
    slices: int = 0
    beat: float = 0.0


class SchedulingLoop:
    """``run`` as a task. Stimuli come from ``inbox``.

    ``culprit`` says of the last decision, where it was slow, which pod and which extension points it was.
    ``dispatch`` takes the commands of stimuli, or of decisions, one after the other and must not raise or await.
    ``may_pop`` is asked before every pod, with the number of pods whose commands have not left: leader, synced, room in
    the writer. ``after_slice`` is called when a slice ends, to flush what is buffered.
    """

    def __init__(
        self,
        engine: EnginePort,
        inbox: Inbox,
        dispatch: Callable[[Command], None],
        may_pop: Callable[[int], bool],
        *,
        after_slice: Callable[[], None] = lambda: None,
        clock: Callable[[], Now] = read_clock,
        culprit: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self.steps = StepWatch()
        """Watches these and all other timed steps."""
        self.counts = LoopCounts()
        self._engine = engine
        self._inbox = inbox
        self._dispatch = dispatch
        self._may_pop = may_pop
        self._after_slice = after_slice
        self._clock = clock
        self._is_popping = True
        self._commands: list[Command] = []
        """The commands of the slice's stimuli, or of its decisions, in order. They are sent together: deciding and
        sending then each find their own code and data in the processor's caches."""
        self._round_end: float | None = None
        """The monotonic second until which stimuli come first; None: the inbox was empty."""
        self._no_tick_until = 0.0
        """The monotonic second of the next Tick after one that failed: what was due may still be, at each turn."""
        self._culprit = culprit
        self.when_idle: Callable[[], None] = lambda: None
        """Called when there was no news for as long as the loop sleeps, a second at most."""

    def stop_popping(self) -> None:
        """Take no further pod; waits inside the engine are cancelled. Stimuli are still applied."""
        if self._is_popping:
            self._is_popping = False
            self._inbox.put(ShutdownRequested())

    async def run(self) -> None:
        """Schedule until cancelled."""
        while True:
            self._inbox.noted()
            has_more = self._slice()
            if self._commands:
                now = self._clock()
                self.steps.mark(now.monotonic)
                self.steps.mark(self._dispatch_all(now).monotonic)
            with self.steps.step("after slice"):
                self._after_slice()
            if not has_more:
                wait = self._seconds_to_sleep()
                if wait > 0.0 and not self._inbox.has_news and not await self._inbox.news(wait):
                    with self.steps.step("idle"):
                        self.when_idle()
            # Let everything received be applied before the next pod is taken: a node's change that was sent before the
            # pod arrives on another connection, perhaps a little later than the pod.
            await _turns(TURNS_BEFORE_A_SLICE)

    def _slice(self) -> bool:
        """Work for the time of one slice; returns whether there is more to do."""
        counts = self.counts
        counts.slices += 1
        now = self._clock()
        self.steps.mark(now.monotonic)
        counts.beat = now.monotonic
        end = now.monotonic + SLICE_SECONDS
        now = self._dispatch_all(self._apply_until(end, now))
        if not self._may_turn_to_pods(now):
            return True
        self.steps.mark(now.monotonic)
        end = now.monotonic + SLICE_SECONDS
        deadline = self._deadline()
        if deadline is not None and deadline <= now.monotonic:
            if not self._apply(Tick(), now):
                self._no_tick_until = now.monotonic + MAX_SLEEP_SECONDS
            now = self._dispatch_all(self._after(now, "Tick"))
            if self._engine.is_waking:
                return True
        taken = 0
        while self._is_popping and self._may_pop(taken):
            if not self._step(now):
                return len(self._inbox) > 0
            taken += 1
            now = self._after(now, "decision", self._culprit)
            if now.monotonic >= end or self._engine.is_waking:
                return True
        # Go on if any pod was tried: once its commands are sent there may be room for more.
        return taken > 0 or len(self._inbox) > 0

    def _apply_until(self, end: float, now: Now) -> Now:
        """Apply the stimuli in the inbox, at most until then (monotonic seconds); returns the time afterwards."""
        engine, inbox, clock, took = self._engine, self._inbox, self._clock, self.steps.took
        while (stimulus := WakingContinued() if engine.is_waking else inbox.take()) is not None:
            self._apply(stimulus, now)
            began, now = now.monotonic, clock()
            took(now.monotonic - began, type(stimulus).__name__)
            if now.monotonic >= end and (len(inbox) > 0 or engine.is_waking):
                break
        return now

    def _may_turn_to_pods(self, now: Now) -> bool:
        """Whether all stimuli have been applied, or have come first for long enough."""
        if self._engine.is_waking:
            return False
        if len(self._inbox) == 0:
            self._round_end = None
            return True
        if self._round_end is None:
            self._round_end = now.monotonic + MAX_ROUND_SECONDS
        if now.monotonic < self._round_end:
            return False
        self._round_end = None
        return True

    def _step(self, now: Now) -> bool:
        """Decide one pod; returns False if no pod was ready."""
        try:
            commands = self._engine.schedule_one(now)
        except Exception:
            # The engine handles its plugins' errors; this is one of its own. Its pod stays in flight until the next
            # reconciliation.
            self.counts.errors += 1
            log.exception("Scheduling step failed")
            return True
        if commands is None:
            return False
        self.counts.steps += 1
        self._commands += commands
        return True

    def _apply(self, stimulus: Stimulus, now: Now) -> bool:
        """Returns False for a stimulus that could not be applied."""
        try:
            commands = self._engine.handle(stimulus, now)
        except Exception:
            self.counts.errors += 1
            about = stimulus.object.key if isinstance(stimulus, ObjectObserved | ObjectDeleted) else ""
            log.exception("Stimulus could not be applied", stimulus=type(stimulus).__name__, object=about)
            return False
        self._commands += commands
        return True

    def _dispatch_all(self, now: Now) -> Now:
        """Send the commands of the stimuli, or of the decisions; returns the time after it. What follows from the
        commands of stimuli, such as a node to be avoided, holds for the decisions after them."""
        if not self._commands:
            return now
        commands, self._commands = self._commands, []
        for command in commands:
            self._dispatch(command)
        return self._after(now, "commands")

    def _after(self, began: Now, step: str, culprit: Callable[[], Mapping[str, object]] = dict) -> Now:
        """Report a slow step with what ``culprit`` says; returns the time after it."""
        now = self._clock()
        self.steps.took(now.monotonic - began.monotonic, step, culprit)
        return now

    def _deadline(self) -> float | None:
        try:
            deadline = self._engine.next_deadline()
        except Exception:
            self.counts.errors += 1
            log.exception("Engine can't say its next deadline")
            return None
        return None if deadline is None else max(deadline, self._no_tick_until)

    def _seconds_to_sleep(self) -> float:
        deadline = self._deadline()
        if deadline is None:
            return MAX_SLEEP_SECONDS
        return min(max(deadline - self._clock().monotonic, 0.0), MAX_SLEEP_SECONDS)
