"""Writes about one victim, and the meaning of their answers (docs/kube-scheduler/preemption.md §7)."""

from __future__ import annotations

from typing import Final

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.failure import reference
from scheduler.engine.making_room.preemptor import Preemptor
from scheduler.messages.commands import WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.meta import Condition
from scheduler.objects.timestamps import format_seconds
from scheduler.preemption.eligibility import DISRUPTION_TARGET, EVICTED, PREEMPTED_BY_SCHEDULER

_NO_ANSWER = 0

EVICTION: Final = Condition(DISRUPTION_TARGET, "True", EVICTED, "Eviction API: evicting")
"""The condition that the API server gives an evicted pod, but for its time."""


def disruption_target(preemptor: Preemptor, victim: PodInfo, now: Now) -> Condition | None:
    """The DisruptionTarget condition of a victim; None if its status, as last seen, already has it."""
    kind = "pod" if preemptor.group is None else "podgroup"
    message = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {kind}"
    present = victim.pod.condition(DISRUPTION_TARGET)
    since = format_seconds(now.wall)
    if present is not None and present.status == "True":
        if (present.reason, present.message) == (PREEMPTED_BY_SCHEDULER, message):
            return None
        since = present.last_transition_time or since
    return Condition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=PREEMPTED_BY_SCHEDULER,
        message=message,
        last_transition_time=since,
        observed_generation=victim.pod.metadata.generation,
    )


def preempted(preemptor: Preemptor, victim: PodInfo, suffix: str = "") -> WriteEvent:
    """The Preempted event of a victim, with its preemptor and place."""
    kind = "pod" if preemptor.group is None else "podgroup"
    return WriteEvent(
        regarding=reference(victim),
        related=preemptor.reference,
        type="Normal",
        reason="Preempted",
        action="Preempting",
        note=f"Preempted by {kind} {preemptor.uid} on node {preemptor.place}{suffix}",
        reporting_controller=preemptor.scheduler_name,
    )


def was_gone(outcome: WriteFinished, victim: PodInfo, known: PodInfo | None) -> bool:
    """Whether the victim no longer existed, or another pod has its name: every write carries its UID.

    The API server refuses a foreign UID with 409 where it is a precondition, and in a status with 422. Without an
    answer the watch decides: ``known`` is the pod that it last showed under the victim's name.
    """
    if outcome.is_done:
        return False
    if outcome.status not in (_NO_ANSWER, 409, 422):
        return outcome.status == 404
    return (
        known is None
        or known.uid != victim.uid
        or known.is_terminating
        or "uid in precondition" in outcome.message.lower()
        or (outcome.status == 422 and "metadata.uid" in outcome.message)
    )
