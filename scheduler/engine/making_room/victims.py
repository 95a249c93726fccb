"""What is written about one victim, and what the answers mean (reference preemption.md §7)."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.failure import reference
from scheduler.messages.commands import WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.meta import Condition
from scheduler.objects.timestamps import format_seconds
from scheduler.preemption.eligibility import DISRUPTION_TARGET, PREEMPTED_BY_SCHEDULER

_NO_ANSWER = 0


def disruption_target(preemptor: PodInfo, victim: PodInfo, now: Now) -> Condition | None:
    """The condition that tells the victim's owner why; None where its status, as last seen, says so already."""
    message = f"{preemptor.pod.spec.scheduler_name}: preempting to accommodate a higher priority pod"
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


def preempted(preemptor: PodInfo, victim: PodInfo, place: str) -> WriteEvent:
    """The event that tells the victim for whom and where (``place``: the node, and what is to be said of it)."""
    return WriteEvent(
        regarding=reference(victim),
        related=reference(preemptor),
        type="Normal",
        reason="Preempted",
        action="Preempting",
        note=f"Preempted by pod {preemptor.uid} on node {place}",
        reporting_controller=preemptor.pod.spec.scheduler_name,
    )


def was_gone(outcome: WriteFinished, victim: PodInfo, known: PodInfo | None) -> bool:
    """The victim was not there any more, or another pod has its name: its UID went along with every write.

    The API server refuses a foreign UID with 409 where it is a precondition, and in a status with 422. Where no answer
    came, what the watch has shown meanwhile decides: ``known`` is the pod that it knows by the victim's name.
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
