"""Reports failed attempts to users: an event and a condition, once.

The order is kube-scheduler's (docs/kube-scheduler/cycle.md §9): requeue, nominate, event, condition. Requeue and
nomination happen in one step of the engine, before anything is written, so that the next attempt already sees them.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.attempt_end import was_not_placed
from scheduler.engine.commands import Command
from scheduler.engine.internal import NominationChanged
from scheduler.engine.machine import Claims, Part
from scheduler.engine.outcome import NotPlaced
from scheduler.framework.post_filter import KEEP_NOMINATION, Nomination, NominationMode
from scheduler.messages.commands import PatchPodStatus, WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.references import PodReference
from scheduler.objects.meta import Condition
from scheduler.objects.timestamps import format_seconds
from scheduler.queue.aftermath import Fate
from scheduler.queue.queued_pod import QueuedPod

POD_SCHEDULED = "PodScheduled"
REASON_UNSCHEDULABLE = "Unschedulable"
REASON_ERROR = "SchedulerError"

MAX_NOTE_BYTES = 1024
"""The API's limit of an event's note in bytes; the condition keeps the whole message."""

REPEAT_SECONDS = 300.0
"""Seconds before the same event is repeated: often enough to stay visible, seldom enough not to be a load."""


UNSEEN_SECONDS = 10.0
"""A report that the watch has not shown by then counts as lost, and the next attempt writes it again. Nothing waits for
a report's outcome, so that the writer may fold it into a newer one, or drop it for the pod's bind."""

Value = TypeVar("Value")


class _Written(Struct, Generic[Value], frozen=True):
    value: Value
    at: float
    """Monotonic second."""

    def may_still_come(self, now: Now) -> bool:
        return now.monotonic - self.at < UNSEEN_SECONDS


class FailureReports:
    """Reports failed attempts. Remembers each pod's last report while the pod is pending."""

    CLAIMS = Claims(writes=frozenset({Part.REPORTS}))

    def __init__(self) -> None:
        self._last_note: dict[str, tuple[str, float]] = {}
        self._last_condition: dict[str, _Written[tuple[str, str]]] = {}
        """Written, but not yet shown by the watch."""
        self._last_nomination: dict[str, _Written[str]] = {}

    def attempt_failed(
        self, queued: QueuedPod, attempt: Attempt, failure: NotPlaced, fate: Fate, now: Now
    ) -> list[Command]:
        """Report a failed attempt. ``fate``: what became of the pod, which has been requeued if it still exists."""
        commands: list[Command] = [was_not_placed(attempt, failure)]
        if fate is not Fate.REQUEUED:
            # Gone, bound or replaced: a report would be written to the wrong pod, or to a bound one.
            self.forget(queued.uid)
            return commands
        return commands + self._report(queued.info, failure, now)

    def held_back(self, queued: QueuedPod, is_error: bool, gave_up_room: bool, now: Now) -> list[Command]:
        """Report a pod that a PreEnqueue plugin keeps from being tried: an error, and that it is nominated no more."""
        if gave_up_room:
            return self.nomination_changed(NominationChanged(reference(queued.info), ""), now)
        if not is_error:
            return []
        reasons = ", ".join(queued.gating_reasons)
        message = f'running PreEnqueue plugin "{queued.gating_plugin}": {reasons}'
        return self._report(queued.info, NotPlaced(message, is_error=True, nomination=KEEP_NOMINATION), now)

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a pod that is gone or bound."""
        self._last_note.pop(uid, None)
        self._last_condition.pop(uid, None)
        self._last_nomination.pop(uid, None)

    def nomination_changed(self, step: NominationChanged, now: Now) -> list[Command]:
        """Write the pod's nominated node on behalf of another machine."""
        self._last_nomination[step.pod.uid] = _Written(step.node, now.monotonic)
        if step.is_carried:
            return []
        return [PatchPodStatus(0, step.pod, nominated_node_name=step.node, is_announcement=bool(step.node))]

    def _report(self, info: PodInfo, failure: NotPlaced, now: Now) -> list[Command]:
        commands: list[Command] = []
        note, pod = cut_note(failure.message), reference(info)
        if self._is_news(info.uid, note, now):
            commands.append(
                WriteEvent(
                    regarding=pod,
                    type="Warning",
                    reason="FailedScheduling",
                    action="Scheduling",
                    note=note,
                    reporting_controller=info.pod.spec.scheduler_name,
                )
            )
        patch = self._status_patch(info, pod, failure, now)
        if patch is not None:
            commands.append(patch)
        return commands

    def _is_news(self, uid: str, note: str, now: Now) -> bool:
        last = self._last_note.get(uid)
        if last is not None and last[0] == note and now.monotonic - last[1] < REPEAT_SECONDS:
            return False
        self._last_note[uid] = (note, now.monotonic)
        return True

    def _status_patch(self, info: PodInfo, pod: PodReference, failure: NotPlaced, now: Now) -> PatchPodStatus | None:
        reason = REASON_ERROR if failure.is_error else REASON_UNSCHEDULABLE
        known = info.pod.condition(POD_SCHEDULED)
        said = (known.reason, known.message) if known is not None and known.status == "False" else None
        written = self._last_condition.get(info.uid)
        if written is not None and (written.value == said or not written.may_still_come(now)):
            # The watch has shown the write, or it was lost: compare with the pod's status from here on.
            del self._last_condition[info.uid]
            written = None
        condition = None
        if (reason, failure.message) != (said if written is None else written.value):
            self._last_condition[info.uid] = _Written((reason, failure.message), now.monotonic)
            condition = _not_scheduled(info, known, reason, failure.message, now)
        nominated = self._nomination_to_write(info, failure.nomination, now)
        if condition is None and nominated is None:
            return None
        return PatchPodStatus(0, pod, condition, nominated)

    def _nomination_to_write(self, info: PodInfo, nomination: Nomination, now: Now) -> str | None:
        """None if the pod's status has it already, and no other was written that the watch may still show."""
        if nomination.mode is NominationMode.KEEP:
            return None
        wanted = nomination.node_name if nomination.mode is NominationMode.SET else ""
        present = info.pod.status.nominated_node_name
        # Considered however old it is: the write may have arrived although the watch, after a gap, has not shown it.
        written = self._last_nomination.pop(info.uid, None)
        if wanted == present and (written is None or wanted == written.value):
            return None
        self._last_nomination[info.uid] = _Written(wanted, now.monotonic)
        return wanted


def _not_scheduled(info: PodInfo, known: Condition | None, reason: str, message: str, now: Now) -> Condition:
    """``known``: the pod's condition as it is."""
    is_kept = known is not None and known.status == "False" and bool(known.last_transition_time)
    return Condition(
        type=POD_SCHEDULED,
        status="False",
        reason=reason,
        message=message,
        last_transition_time=known.last_transition_time if known is not None and is_kept else format_seconds(now.wall),
        observed_generation=info.pod.metadata.generation,
    )


def reference(info: PodInfo) -> PodReference:
    return PodReference(info.namespace, info.name, info.uid)


def skipped(info: PodInfo) -> WriteEvent:
    """The event about a pod that was deleted before it was tried."""
    return WriteEvent(
        regarding=reference(info),
        type="Warning",
        reason="FailedScheduling",
        action="Scheduling",
        note=f"skip schedule deleting pod: {info.key}",
        reporting_controller=info.pod.spec.scheduler_name,
    )


def cut_note(message: str) -> str:
    """The note cut to MAX_NOTE_BYTES of UTF-8; a cut one ends in `` ...``."""
    if len(message) <= MAX_NOTE_BYTES and message.isascii():
        return message
    encoded = message.encode()
    if len(encoded) <= MAX_NOTE_BYTES:
        return message
    return encoded[: MAX_NOTE_BYTES - 4].decode(errors="ignore") + " ..."
