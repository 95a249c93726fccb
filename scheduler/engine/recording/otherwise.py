"""A recording decided by another configuration: what would have been placed, how soon, and what room would be left.

The recorded cluster goes its way: pods, nodes and everything else come, change and go when they did. What the recorded
scheduler itself caused is taken out, and what this one causes is put in: a binding is done at once, so is a removal of
a victim, and a pod that the recording shows on the node of the recorded scheduler is shown on the one of this.

So it is an estimate where consequences matter: victims leave at once, pods that ended did so when they did in the
recording, and controllers replace the victims of the recording, not those of this. Claims that wait for a provisioner
are answered by the recording's events, and extenders can't be asked.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from scheduler.engine.commands import Command
from scheduler.engine.engine import Engine
from scheduler.messages.commands import BindPod, CallExtender, DeletePod, EvictPod, RunPlugin
from scheduler.messages.now import Now
from scheduler.messages.stimuli import (
    ObjectDeleted,
    ObjectObserved,
    PluginFinished,
    PodsActivated,
    Stimulus,
    Synced,
    Tick,
    WriteFinished,
)
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod

_FOLLOWED = (ObjectObserved, ObjectDeleted, Synced, PodsActivated)
"""Stimuli that come from the cluster. The others answer what the recorded scheduler asked."""
MAX_STEPS = 100_000
"""Cycles at the end of a recording, to place what still can be."""


class Waits:
    """How long pods waited for their binding: from first seen to bound."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self.seconds: dict[str, float] = {}

    def seen(self, pod: Pod, now: Now) -> None:
        if not pod.is_assigned:
            self._since.setdefault(pod.uid, now.monotonic)

    def bound(self, uid: str, now: Now) -> None:
        since = self._since.get(uid)
        if since is not None:
            self.seconds[uid] = now.monotonic - since


class Room(msgspec.Struct, frozen=True, rename="camel"):
    """What is free at the end, in whole units of the resource (CPU in thousandths)."""

    free: int
    of: int
    largest: int
    """What the largest pod may ask for: the most that is free on one node."""


class Outcomes(msgspec.Struct, frozen=True, rename="camel"):
    """What one configuration made of the recording."""

    placed: int
    waiting: int
    median_wait_seconds: float
    p99_wait_seconds: float
    longest_wait_seconds: float
    victims: int
    room: dict[str, Room]


class Otherwise:
    """Feeds an engine from a recording that another one made. ``engine`` is at the recording's beginning."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.waits = Waits()
        self.victims = 0
        self._placed: dict[str, str] = {}
        """Pods that this one has bound: UID → node."""
        self._pods: dict[str, Pod] = {info.uid: info.pod for info in engine.known_pods}
        self._as_recorded = {uid for uid, pod in self._pods.items() if pod.is_assigned}
        """Pods that have their node from elsewhere."""
        self._gone: set[str] = set()
        """Victims of this one."""

    def apply(self, stimulus: Stimulus, now: Now, recorded_victims: set[str]) -> None:
        """One recorded input. ``recorded_victims``: UIDs of all pods that the recorded scheduler has removed so
        far."""
        self._let_time_pass(now)
        if not isinstance(stimulus, _FOLLOWED):
            return
        if isinstance(stimulus, ObjectObserved | ObjectDeleted) and isinstance(stimulus.object, Pod):
            self._pod(stimulus, stimulus.object, now, recorded_victims)
        else:
            self._carry_out(self.engine.handle(stimulus, now), now)

    def next_pod(self, now: Now) -> bool:
        """Tries the next pod; False if none is ready."""
        self._let_time_pass(now)
        commands = self.engine.schedule_one(now)
        self._carry_out(commands or (), now)
        return commands is not None

    def finish(self, now: Now) -> None:
        """Tries every pod that is ready."""
        for _ in range(MAX_STEPS):
            if not self.next_pod(now):
                return

    def _let_time_pass(self, now: Now) -> None:
        deadline = self.engine.next_deadline()
        if deadline is not None and deadline <= now.monotonic:
            self._carry_out(self.engine.handle(Tick(), now), now)

    def _pod(self, stimulus: ObjectObserved | ObjectDeleted, pod: Pod, now: Now, recorded_victims: set[str]) -> None:
        uid = pod.uid
        if uid in self._gone:
            return
        is_leaving = isinstance(stimulus, ObjectDeleted) or pod.is_terminating
        if is_leaving and uid in recorded_victims:
            return
        if uid not in self._pods and pod.is_assigned:
            self._as_recorded.add(uid)
        shown = self._shown(pod)
        if isinstance(stimulus, ObjectDeleted):
            self._pods.pop(uid, None)
            commands = self.engine.handle(ObjectDeleted(Kind.POD, shown, stimulus.is_stale), now)
        else:
            self._pods[uid] = shown
            self.waits.seen(shown, now)
            commands = self.engine.handle(ObjectObserved(Kind.POD, shown), now)
        self._carry_out(commands, now)

    def _shown(self, pod: Pod) -> Pod:
        if pod.uid in self._as_recorded or pod.scheduler_name not in self.engine.profiles:
            return pod
        node = self._placed.get(pod.uid, "")
        if node and node == pod.node_name:
            return pod
        nominated = self._pods[pod.uid].nominated_node_name if pod.uid in self._pods else ""
        shown = pod.on_node(node).nominated_to(nominated)
        phase = pod.status.phase if node else "Pending"
        return msgspec.structs.replace(shown, status=msgspec.structs.replace(shown.status, phase=phase))

    def _carry_out(self, commands: Sequence[Command], now: Now) -> None:
        """Everything asked for is done, at once."""
        waiting = list(commands)
        while waiting:
            command = waiting.pop(0)
            if isinstance(command, BindPod):
                self._placed[command.pod.uid] = command.node
                self.waits.bound(command.pod.uid, now)
                waiting += self._done(command, now)
                waiting += self._show(self._pods.get(command.pod.uid), now)
            elif isinstance(command, DeletePod | EvictPod):
                waiting += self._done(command, now)
                victim = self._pods.pop(command.pod.uid, None)
                if victim is not None:
                    self._gone.add(victim.uid)
                    self.victims += 1
                    waiting += self.engine.handle(ObjectDeleted(Kind.POD, victim), now)
            elif isinstance(command, RunPlugin):
                waiting += self.engine.handle(PluginFinished(command.ticket, None), now)
            elif not isinstance(command, CallExtender):
                waiting += self._done(command, now)

    def _show(self, pod: Pod | None, now: Now) -> Sequence[Command]:
        if pod is None:
            return ()
        self._pods[pod.uid] = shown = self._shown(pod)
        return self.engine.handle(ObjectObserved(Kind.POD, shown), now)

    def _done(self, command: msgspec.Struct, now: Now) -> Sequence[Command]:
        ticket: int = getattr(command, "ticket", 0)
        return self.engine.handle(WriteFinished(ticket, True, 201), now) if ticket else ()


def outcomes_of(engine: Engine, waits: Waits, victims: int) -> Outcomes:
    """What became of the pods, and the room that is left."""
    seconds = sorted(waits.seconds.values()) or [0.0]
    offered = {name for node in engine.cache.table.nodes if node is not None for name in node.status.allocatable}
    return Outcomes(
        placed=len(waits.seconds),
        waiting=sum(
            not info.node_name and not info.pod.is_finished and info.pod.scheduler_name in engine.profiles
            for info in engine.known_pods
        ),
        median_wait_seconds=seconds[len(seconds) // 2],
        p99_wait_seconds=seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)],
        longest_wait_seconds=seconds[-1],
        victims=victims,
        room={name: _room(engine, name) for name in sorted(offered)},
    )


def _room(engine: Engine, resource: str) -> Room:
    table = engine.cache.table
    offered = table.allocatable(resource)[table.exists]
    free = np.maximum(offered - table.requested(resource)[table.exists], 0)
    return Room(int(free.sum()), int(offered.sum()), int(free.max(initial=0)))
