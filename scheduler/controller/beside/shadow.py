"""``--shadow``: makes and records decisions without writing them, beside the scheduler that places the pods.

It replaces the writer. A binding waits here, its pod assumed on our node as usual, until the watch shows the other
scheduler's node (then the two are compared, and the same event updates the engine's cache), until the pod is gone, or
until a time-out: then the assumption is dropped and the pod tried again. Removals of victims likewise wait until the
victims are gone. No decision of the shadow is ever taken as carried out.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

import structlog
from msgspec import Struct

from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.carrying_out import OutgoingCommand
from scheduler.controller.inbox import Inbox
from scheduler.controller.report.instruments import Counter
from scheduler.controller.write.writer import WriteCommand, WriterCounts
from scheduler.messages.commands import (
    BindPod,
    CallExtender,
    DeletePod,
    EvictPod,
    RunPlugin,
    UpdateObject,
    WriteEvent,
)
from scheduler.messages.references import PodReference
from scheduler.messages.status import failure
from scheduler.messages.stimuli import (
    ExtenderAnswered,
    ObjectDeleted,
    ObjectObserved,
    PluginFinished,
    Stimulus,
    WriteFinished,
)
from scheduler.objects.pod import Pod

PATIENCE_SECONDS: Final = 60.0
"""Time-out for the other scheduler to place a pod that we have found a node for."""
SWEEP_SECONDS: Final = 1.0
MAX_WAITING: Final = 10_000
"""With as many decisions not yet compared, no further pod is tried."""
COMPARISONS_KEPT: Final = 1_000
AGREES, DIFFERS, UNSEEN = "true", "false", "unknown"

log = structlog.get_logger()


class _Waiting(Struct, frozen=True):
    """A decision to be compared. ``node`` "": a victim's removal. ``end`` creates the engine's answer."""

    pod: PodReference
    node: str
    until: float
    end: Callable[[str], Stimulus]
    """Maps a problem ("" for success) to the answer."""


class Comparison(Struct, frozen=True):
    """Our decision and the other scheduler's. ``theirs`` "": none in time."""

    pod: str
    agrees: str
    ours: str
    theirs: str


class ShadowWriter:
    """A ``CommandSink`` that writes nothing; extenders are asked, but for those that would bind.

    ``see`` what the watch of pods tells, after the inbox has it. ``node_of`` says where a pod is now by the watch: ""
    for nowhere, None for no such pod.
    """

    def __init__(
        self,
        inbox: Inbox,
        extenders: ExtenderCalls,
        node_of: Callable[[PodReference], str | None],
        counter: Counter,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = WriterCounts()
        self.binds_under_way = 0
        self.merged = 0
        self.comparisons: deque[Comparison] = deque(maxlen=COMPARISONS_KEPT)
        """The newest comparisons, in the order of the other scheduler's decisions."""
        self._inbox = inbox
        self._extenders = extenders
        self._node_of = node_of
        self._counter = counter
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._waiting: dict[int, _Waiting] = {}
        """Decisions by number, in the order of their time-outs."""
        self._numbers = count()
        self._of_pod: dict[tuple[str, bool], list[int]] = {}
        """UID of a pod, and whether it is a victim → its decisions. A victim may leave for several preemptors."""

    async def close(self) -> None:
        """There is nothing to close."""

    def has_room_for(self, pods: int) -> bool:
        return len(self._waiting) + pods <= MAX_WAITING

    @property
    def open_writes(self) -> int:
        return len(self._waiting)

    async def settle(self, _seconds: float) -> bool:
        """Returns at once: no write is under way."""
        return True

    # --- commands -----------------------------------------------------------------------------------------------------

    def submit(self, command: OutgoingCommand) -> None:
        match command:
            case WriteEvent():
                pass
            case CallExtender():
                self._call(command)
            case RunPlugin():
                self._run_plugin(command)
            case _:
                self._write(command)

    def _write(self, command: WriteCommand) -> None:
        ticket = command.ticket

        def end(problem: str) -> Stimulus:
            return WriteFinished(ticket, not problem, 409 if problem else 201, "Shadow" if problem else "", problem)

        if isinstance(command, BindPod):
            self._await(command.pod, command.node, end)
        elif isinstance(command, DeletePod | EvictPod):
            self._await(command.pod, "", end)
        elif isinstance(command, UpdateObject) or ticket:
            self._inbox.put(end(""))

    def _call(self, command: CallExtender) -> None:
        if command.binds is None:
            self._extenders.submit(command)
            return
        pod, node = command.binds
        self._await(pod, node, lambda problem: ExtenderAnswered(command.ticket, b"{}", problem))

    def _run_plugin(self, command: RunPlugin) -> None:
        """Skips a user plugin's PreBind and PostBind, which may write; a Bind is compared like our own."""
        ticket = command.ticket

        def end(problem: str) -> Stimulus:
            return PluginFinished(ticket, failure(problem).by(command.plugin) if problem else None)

        if command.point == "Bind":
            pod = command.pod
            self._await(PodReference(pod.namespace, pod.name, pod.uid), command.node, end)
        elif ticket:
            self._inbox.put(end(""))

    def _await(self, pod: PodReference, node: str, end: Callable[[str], Stimulus]) -> None:
        key = (pod.uid, not node)
        if node:
            # A newer decision on a node: the engine has given the older one up.
            for older in self._of_pod.pop(key, ()):
                del self._waiting[older]
        number = next(self._numbers)
        self._waiting[number] = _Waiting(pod, node, self._clock() + self._patience_seconds, end)
        self._of_pod.setdefault(key, []).append(number)
        # The watch may have been quicker than the decision.
        self._check(key)

    # --- outcomes -----------------------------------------------------------------------------------------------------

    def see(self, stimuli: Sequence[Stimulus]) -> None:
        if not self._waiting:
            return
        for stimulus in stimuli:
            if isinstance(stimulus, ObjectObserved | ObjectDeleted) and isinstance(stimulus.object, Pod):
                for is_victim in (False, True):
                    self._check((stimulus.object.uid, is_victim))

    def sweep(self) -> None:
        """Ends decisions that have timed out."""
        now = self._clock()
        for number, waiting in list(self._waiting.items()):
            if waiting.until > now:
                break
            seconds = f"{self._patience_seconds:g} s"
            if waiting.node:
                self._record(waiting, UNSEEN, "")
                self._end(number, f"shadow: no other scheduler has bound the pod within {seconds}")
            else:
                self._end(number, f"shadow: the pod was not removed within {seconds}")

    def _check(self, key: tuple[str, bool]) -> None:
        for number in tuple(self._of_pod.get(key, ())):
            self._check_one(number, self._waiting[number])

    def _check_one(self, number: int, waiting: _Waiting) -> None:
        node = self._node_of(waiting.pod)
        if not waiting.node:
            if node is None:
                self._end(number, "")
        elif node is None:
            self._end(number, f'shadow: pods "{waiting.pod.name}" not found')
        elif node:
            self._record(waiting, AGREES if node == waiting.node else DIFFERS, node)
            self._end(number, "")

    def _end(self, number: int, problem: str) -> None:
        waiting = self._waiting.pop(number)
        key = (waiting.pod.uid, not waiting.node)
        self._of_pod[key].remove(number)
        if not self._of_pod[key]:
            del self._of_pod[key]
        self._inbox.put(waiting.end(problem))

    def _record(self, waiting: _Waiting, agrees: str, theirs: str) -> None:
        self._counter.child(agrees).add()
        self.comparisons.append(Comparison(waiting.pod.key, agrees, waiting.node, theirs))
        log.info("Shadow decision", pod=waiting.pod.key, agrees=agrees, ours=waiting.node, theirs=theirs)

    async def keep_up(self) -> None:
        """End decisions that the other scheduler has not made in time, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()
