"""Carries out what the search found for a group: in one step, on the cluster as it is now, all of it or nothing.

The cluster may have changed since the search began, so each pod must still fit the node that was found for it. Where
the group is not feasible any more, everything is taken back in the reverse order, within the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.group_attempt import UNSCHEDULABLE_GROUP, GroupResult
from scheduler.engine.group_cycle import GroupUnit, Member, Trial
from scheduler.engine.outcome import CycleOutcome, NotPlaced, Placed
from scheduler.engine.reservation import States, unreserve
from scheduler.engine.scheduling_cycle import place_on
from scheduler.framework.post_filter import CLEAR_NOMINATION, KEEP_NOMINATION, nominate
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.stimuli import PermitDecided

WAITED = "one or more plugins asked to wait and no plugin rejected pod"
WAITED_FOR_GANG = f"waiting for minCount pods from a gang to be scheduled, {WAITED}"
GANG_PLUGIN = "GangScheduling"


@dataclass(frozen=True, slots=True)
class _Held:
    """What is to be taken back of a pod."""

    pod: PodInfo
    profile: Profile
    attempt: Attempt
    states: States


Latest = Mapping[str, PodInfo]
"""UID → the pod as the watch has shown it last, of those that still wait."""


def commit(
    context: CycleContext, unit: GroupUnit, trial: Trial, latest: Latest, now: Now
) -> dict[str, CycleOutcome] | None:
    """The members' outcomes after a search that scheduled the group; None, and nothing has happened, if the group no
    longer fits."""
    outcomes: dict[str, CycleOutcome] = {}
    is_feasible = False
    for member in unit.members:
        outcome = trial.outcomes[member.uid]
        if isinstance(outcome, Placed):
            info = latest.get(member.uid)
            if info is None:
                text = f"skip schedule deleting pod: {member.queued.key}"
                outcome = NotPlaced(text, is_error=True, nomination=KEEP_NOMINATION)
            else:
                node = outcome.pod.node_name
                outcome = place_on(context, unit.profile, info, member.attempt, now, node, is_checked=True)
            is_feasible = is_feasible or (isinstance(outcome, Placed) and not outcome.waits)
        outcomes[member.uid] = outcome
    if is_feasible:
        return _without_settled_waits(outcomes)
    _take_back(context, unit, outcomes)
    return None


def _without_settled_waits(outcomes: Mapping[str, CycleOutcome]) -> dict[str, CycleOutcome]:
    """The outcomes without the waits in Permit that a later member's has ended already.

    kube-scheduler 1.36 begins each of these waits, and writes the node into the pod's status, which shows it while the
    pod waits: a write a pod for a wait of no time.
    """
    decided = {
        (request.uid, request.plugin)
        for outcome in outcomes.values()
        if isinstance(outcome, Placed)
        for request in outcome.requests
        if isinstance(request, PermitDecided) and request.is_allowed
    }
    settled: dict[str, CycleOutcome] = {}
    for uid, outcome in outcomes.items():
        if isinstance(outcome, Placed) and outcome.waits:
            waits = {plugin: seconds for plugin, seconds in outcome.waits.items() if (uid, plugin) not in decided}
            outcome = msgspec.structs.replace(outcome, waits=waits)
        settled[uid] = outcome
    return settled


def _take_back(context: CycleContext, unit: GroupUnit, outcomes: Mapping[str, CycleOutcome]) -> None:
    for member in reversed(unit.members):
        outcome = outcomes[member.uid]
        if isinstance(outcome, Placed):
            unreserve(context, _Held(outcome.pod, unit.profile, member.attempt, outcome.states))
            context.assumptions.release(outcome.pod.uid)


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
        return NotPlaced(trial.message)
    if trial.result is GroupResult.WAITING_ON_PREEMPTION:
        if isinstance(outcome, NotPlaced):
            return outcome
        return NotPlaced(trial.message, nomination=nominate(outcome.pod.node_name))
    if isinstance(outcome, NotPlaced) and member.uid not in trial.nodes:
        return msgspec.structs.replace(outcome, room=None)
    text = WAITED_FOR_GANG if GANG_PLUGIN in trial.waits else WAITED
    return NotPlaced(f"{UNSCHEDULABLE_GROUP}, {text}", nomination=CLEAR_NOMINATION)
