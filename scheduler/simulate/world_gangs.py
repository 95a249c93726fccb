"""What must hold for gangs, by the API server's own account and at each bind that is sent."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.errors import InvariantViolation
from scheduler.messages.commands import BindPod
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus, WriteFinished
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod

RECENT_SECONDS = 1.0
"""Seconds for which what happened to a gang counts as recent: longer than a gang takes to be placed and handed over, so
that what happened before was known then."""


class GangWatch:
    """Checks that every bind of a gang's member is sent while as many of its members have their places as must start
    together.

    What others do to a gang that is being bound is not the scheduler's: a member deleted, a bind refused, a node gone,
    another quorum. A gang to which that happened a moment ago is not judged.
    """

    def __init__(self) -> None:
        self._disturbed: dict[str, float] = {}
        self._all_disturbed = float("-inf")
        self._bound_by: dict[int, str] = {}
        """Ticket of each bind under way → group."""
        self._sent: set[tuple[str, str]] = set()

    def restart(self) -> None:
        self._sent.clear()
        self._bound_by.clear()

    def fed(self, stimulus: Stimulus, engine: Engine, now: float) -> None:
        """Note a stimulus before the engine gets it."""
        match stimulus:
            case ObjectDeleted(Kind.NODE):
                self._all_disturbed = now
            case ObjectDeleted(Kind.POD_GROUP, gone):
                self._disturbed[gone.key] = now
            case ObjectDeleted(_, Pod() as pod):
                self._disturb(engine, pod, now)
            case ObjectObserved(_, Pod() as pod) if pod.is_finished or pod.metadata.deletion_timestamp:
                self._disturb(engine, pod, now)
            case WriteFinished(ticket=ticket, is_done=is_done):
                group = self._bound_by.pop(ticket, "")
                if group and not is_done:
                    self._disturbed[group] = now

    def sends(self, command: BindPod, engine: Engine, now: float) -> None:
        """Raise InvariantViolation if the bind starts a gang below its quorum."""
        info = engine.known_pods.by_uid(command.pod.uid)
        key = engine.cache.groups.key_of(info) if info is not None else ""
        if not key:
            return
        self._bound_by[command.ticket] = key
        is_again = (command.pod.uid, command.node) in self._sent
        self._sent.add((command.pod.uid, command.node))
        group = engine.cache.groups.get(key)
        latest = max(self._disturbed.get(key, float("-inf")), self._all_disturbed)
        if is_again or group is None or group.min_count is None or now - latest < RECENT_SECONDS:
            return
        placed = len(engine.cache.groups.members(key).placed)
        if placed < group.min_count:
            raise InvariantViolation(
                f"{command.pod.key} of group {key} is bound while {placed} of {group.min_count} members have places"
            )

    def _disturb(self, engine: Engine, pod: Pod, now: float) -> None:
        group = engine.cache.groups.key_of(PodInfo(pod))
        if group:
            self._disturbed[group] = now


def check_at_rest(engine: Engine) -> None:
    """Raise InvariantViolation if room is held although nothing is under way any more: after a long calm."""
    if engine.group_cycles.is_under_way:
        raise InvariantViolation("a group is being tried although nothing happens")
    held = sorted(info.key for info in engine.cache.pods.values() if engine.cache.is_assumed(info.uid))
    if held:
        raise InvariantViolation(f"pods hold room without being bound: {held}")
