"""Commits a group's trial to the live cluster: all of its placements or none.

The cluster may have changed since the search began, so each pod must still fit its node. One pod is placed in each
step, so that other pods are tried in between; none is bound before all are placed, and if the group is no longer
feasible all are taken back in reverse order, one in each step.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from scheduler.cluster.groups.group import GANG_PLUGIN
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.driving import run_in_steps
from scheduler.engine.group_attempt import UNSCHEDULABLE_GROUP, GroupResult
from scheduler.engine.group_cycle import GroupUnit, Member, Trial, as_nominated
from scheduler.engine.internal import RoomTakenBack, Step
from scheduler.engine.outcome import CycleOutcome, GroupPermitted, NotPlaced, Placed
from scheduler.engine.reservation import States, unreserve
from scheduler.engine.scheduling_cycle import place_on
from scheduler.framework.post_filter import CLEAR_NOMINATION, KEEP_NOMINATION, nominate
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.stimuli import PermitDecided
from scheduler.objects.steps import Steps

WAITED = "one or more plugins asked to wait and no plugin rejected pod"
WAITED_FOR_GANG = f"waiting for minCount pods from a gang to be scheduled, {WAITED}"


class Held(Struct, frozen=True):
    """A member that is assumed for its group, with what undoes that."""

    pod: PodInfo
    profile: Profile
    attempt: Attempt
    states: States


Latest = Callable[[str], PodInfo | None]
"""By UID: the pod as last observed; None unless it still waits for a node."""


class Commit:
    """The commit of one group.

    ``place`` each member, then ask ``is_whole``; then ``hand_over`` each outcome, or ``take_back`` each that is held.
    """

    def __init__(self, context: CycleContext, unit: GroupUnit, trial: Trial, latest: Latest) -> None:
        self._context = context
        self._placing = msgspec.structs.replace(context, together=frozenset([member.uid for member in unit.members]))
        self._unit = unit
        self._trial = trial
        self._latest = latest
        self._outcomes: dict[str, CycleOutcome] = {}
        self._is_feasible = False
        self.held: dict[str, Held] = {}
        """By UID: the pods that count on their nodes, and have not been handed over."""

    def place(self, member: Member, now: Now) -> Steps[None]:
        """The member counts on the node that was found for it, or is left out. Nothing may change in its pauses."""
        outcome = self._trial.outcomes[member.uid]
        if isinstance(outcome, Placed):
            info = self._latest(member.uid)
            if info is None or not self._is_member(info):
                outcome = _gone(member) if info is None else _left(member)
            else:
                node, profile = outcome.pod.node_name, self._unit.profile
                info = as_nominated(info, self._context)
                placing = place_on(self._placing, profile, info, member.attempt, now, node, is_checked=True)
                outcome = yield from run_in_steps(placing)
        if isinstance(outcome, Placed):
            self.held[member.uid] = Held(outcome.pod, self._unit.profile, member.attempt, outcome.states)
            self._is_feasible = self._is_feasible or not outcome.waits
        self._outcomes[member.uid] = outcome

    def is_whole(self) -> bool:
        """Whether the group is feasible, and all that was placed for it is still there."""
        return self._is_feasible and all(self._is_there(held) for held in self.held.values())

    def _is_there(self, held: Held) -> bool:
        cache = self._context.cache
        info = self._latest(held.pod.uid)
        if info is not None and not self._is_member(info):
            return False
        return cache.is_assumed(held.pod.uid) and cache.table.existing_row(held.pod.node_name) is not None

    def outcomes(self) -> dict[str, CycleOutcome]:
        """The members' outcomes without the waits in Permit that a later member's has ended already.

        kube-scheduler 1.36 begins each of these waits, and writes the node into the pod's status, which shows it while
        the pod waits: a write a pod for a wait of no time.
        """
        settled: dict[str, CycleOutcome] = {}
        decided: set[tuple[str, str]] = set()
        decided_for_all: set[str] = set()
        for uid, outcome in reversed(self._outcomes.items()):
            if isinstance(outcome, Placed):
                if outcome.waits:
                    waits = {
                        plugin: seconds
                        for plugin, seconds in outcome.waits.items()
                        if plugin not in decided_for_all and (uid, plugin) not in decided
                    }
                    settled[uid] = msgspec.structs.replace(outcome, waits=waits)
                for request in outcome.requests:
                    if isinstance(request, PermitDecided) and request.is_allowed:
                        decided.add((request.uid, request.plugin))
                    elif isinstance(request, GroupPermitted) and request.group == self._unit.key:
                        decided_for_all.add(request.plugin)
        return {**self._outcomes, **settled}

    def hand_over(
        self, member: Member, outcome: CycleOutcome, *, makes_room: bool = True
    ) -> tuple[CycleOutcome, list[Step]]:
        """The outcome that goes to the binding cycle, which holds the pod's room from now on. A pod that was deleted,
        bound by another scheduler, or put in another group since it was placed is not bound. ``makes_room``: False
        where the group is gone.
        """
        held = self.held.pop(member.uid, None)
        info = self._latest(member.uid)
        is_waiting = info is not None and self._is_member(info)
        if held is not None and not is_waiting:
            return _gone(member) if info is None else _left(member), self._released(held)
        if isinstance(outcome, NotPlaced) and outcome.room is not None and not (is_waiting and makes_room):
            # No victim dies for a pod, or a group, that is gone.
            return msgspec.structs.replace(outcome, room=None), []
        return outcome, []

    def _is_member(self, info: PodInfo) -> bool:
        """Whether the pod is still of this group: a label that names it may change."""
        return self._context.cache.groups.key_of(info) == self._unit.key

    def take_back(self) -> list[Step]:
        """Of the pod that was placed last."""
        return self._released(self.held.popitem()[1])

    def _released(self, held: Held) -> list[Step]:
        steps: list[Step] = [*unreserve(self._context, held)]
        if self._context.cache.is_assumed(held.pod.uid):
            self._context.assumptions.release(held.pod.uid, is_announced=True)
            steps.append(RoomTakenBack(held.pod))
        return steps


def _gone(member: Member) -> NotPlaced:
    return NotPlaced(f"skip schedule deleting pod: {member.queued.key}", is_error=True, nomination=KEEP_NOMINATION)


def _left(member: Member) -> NotPlaced:
    return NotPlaced("the pod has another group than when it was tried", is_error=True)


def without_nodes(unit: GroupUnit, trial: Trial) -> dict[str, CycleOutcome]:
    """The members' outcomes after a search that did not schedule the group (podgroups.md §6.2)."""
    outcomes = {member.uid: _outcome(trial, member) for member in unit.members}
    if trial.room is not None:
        # Carried by one member, for all of them: the last that is nominated, since the others' ends come before.
        carrier = next(reversed([uid for uid in outcomes if uid in trial.nodes or not trial.nodes]))
        outcomes[carrier] = msgspec.structs.replace(outcomes[carrier], room=trial.room)
    return dict(outcomes)


def _outcome(trial: Trial, member: Member) -> NotPlaced:
    outcome = trial.outcomes.get(member.uid)
    if trial.result is GroupResult.ERROR:
        if isinstance(outcome, NotPlaced) and outcome.is_error:
            return outcome
        return NotPlaced(trial.message, is_error=True)
    if outcome is None:
        return NotPlaced(trial.message, nomination=KEEP_NOMINATION)
    if trial.result is GroupResult.WAITING_ON_PREEMPTION:
        if isinstance(outcome, NotPlaced):
            return outcome
        return NotPlaced(trial.message, nomination=nominate(outcome.pod.node_name))
    if isinstance(outcome, NotPlaced) and member.uid not in trial.nodes:
        nomination = CLEAR_NOMINATION if trial.gives_up_room else outcome.nomination
        return msgspec.structs.replace(outcome, room=None, nomination=nomination)
    text = WAITED_FOR_GANG if GANG_PLUGIN in trial.waits else WAITED
    return NotPlaced(f"{UNSCHEDULABLE_GROUP}, {text}", nomination=CLEAR_NOMINATION)
