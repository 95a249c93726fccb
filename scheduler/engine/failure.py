"""What follows a failed attempt: the pod goes back to the queue, and its users are told why, once.

The order is kube-scheduler's (reference cycle.md §9): requeue, nominate, event, condition. Requeue and nomination
happen in one step of the engine, before anything is written, so that the next attempt of any pod already sees them.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import ERROR, UNSCHEDULABLE, Attempt
from scheduler.engine.commands import Command, RecordAttempt
from scheduler.engine.outcome import NotPlaced
from scheduler.framework.post_filter import KEEP_NOMINATION, Nomination, NominationMode
from scheduler.messages.commands import PatchPodStatus, WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.references import PodReference
from scheduler.objects.meta import Condition
from scheduler.objects.timestamps import format_seconds
from scheduler.queue.handlers import EventHandlers, Fate
from scheduler.queue.queued_pod import QueuedPod

POD_SCHEDULED = "PodScheduled"
REASON_UNSCHEDULABLE = "Unschedulable"
REASON_ERROR = "SchedulerError"

MAX_NOTE_BYTES = 1024
"""An event's note holds no more; the condition keeps the whole message."""

REPEAT_SECONDS = 300.0
"""The same event is written again only after so long: often enough to stay visible, seldom enough not to be a load."""


class FailureHandling:
    """Tells of failed attempts. Remembers per pod what was said last, for as long as the pod is pending."""

    def __init__(self, handlers: EventHandlers, new_ticket: Callable[[], int]) -> None:
        self._handlers = handlers
        self._new_ticket = new_ticket
        self._tickets: dict[int, str] = {}
        self._last_note: dict[str, tuple[str, float]] = {}
        self._last_condition: dict[str, tuple[str, str]] = {}
        """Written, but not seen to have come back."""
        self._last_nomination: dict[str, str] = {}

    def attempt_failed(self, queued: QueuedPod, attempt: Attempt, failure: NotPlaced, now: Now) -> list[Command]:
        """The scheduling cycle found no node, or broke off."""
        queued.rejected_by(failure.unschedulable_plugins | failure.pending_plugins, failure.pending_plugins)
        fate = self._handlers.requeue_failed(queued, failure.nomination, now)
        return self._tell(queued, attempt, failure, fate, now)

    def binding_failed(
        self, queued: QueuedPod, assumed: PodInfo, attempt: Attempt, failure: NotPlaced, now: Now
    ) -> list[Command]:
        """The binding cycle broke off after the pod was assumed; everything reserved is already unreserved."""
        queued.rejected_by(failure.unschedulable_plugins | failure.pending_plugins, failure.pending_plugins)
        fate = self._handlers.requeue_unbound(queued, assumed, not failure.is_error, now)
        attempt.node = ""
        return self._tell(queued, attempt, failure, fate, now)

    def held_back(self, queued: QueuedPod, now: Now) -> list[Command]:
        """A PreEnqueue plugin answered with an error: the pod is not even tried, and its users are told why."""
        reasons = ", ".join(queued.gating_reasons)
        message = f'running PreEnqueue plugin "{queued.gating_plugin}": {reasons}'
        return self._told(queued.info, NotPlaced(message, is_error=True, nomination=KEEP_NOMINATION), now)

    def forget(self, uid: str) -> None:
        """The pod is gone or bound: nothing more will be said of it."""
        self._last_note.pop(uid, None)
        self._last_condition.pop(uid, None)
        self._last_nomination.pop(uid, None)

    def nomination_written(self, uid: str, node_name: str) -> None:
        """A write of the pod's nominated node ("" for none) is on its way, by whichever part of the engine."""
        self._last_nomination[uid] = node_name

    def _tell(self, queued: QueuedPod, attempt: Attempt, failure: NotPlaced, fate: Fate, now: Now) -> list[Command]:
        attempt.result = ERROR if failure.is_error else UNSCHEDULABLE
        attempt.message = failure.message
        attempt.rejectors = tuple(sorted(failure.unschedulable_plugins | failure.pending_plugins))
        attempt.nomination_mode = failure.nomination.mode
        attempt.nominated_node = failure.nomination.node_name
        attempt.finished_monotonic = now.monotonic
        commands: list[Command] = [RecordAttempt(attempt)]
        if fate is not Fate.REQUEUED:
            # Gone, bound or replaced: a word about the failed attempt would land on the wrong pod, or on a bound one.
            self.forget(queued.uid)
            return commands
        return commands + self._told(queued.info, failure, now)

    def _told(self, info: PodInfo, failure: NotPlaced, now: Now) -> list[Command]:
        commands: list[Command] = []
        note = cut_note(failure.message)
        if self._is_news(info.uid, note, now):
            commands.append(
                WriteEvent(
                    regarding=reference(info),
                    type="Warning",
                    reason="FailedScheduling",
                    action="Scheduling",
                    note=note,
                    reporting_controller=info.pod.spec.scheduler_name,
                )
            )
        patch = self._status_patch(info, failure, now)
        if patch is not None:
            commands.append(patch)
        return commands

    def _is_news(self, uid: str, note: str, now: Now) -> bool:
        last = self._last_note.get(uid)
        if last is not None and last[0] == note and now.monotonic - last[1] < REPEAT_SECONDS:
            return False
        self._last_note[uid] = (note, now.monotonic)
        return True

    def _status_patch(self, info: PodInfo, failure: NotPlaced, now: Now) -> PatchPodStatus | None:
        reason = REASON_ERROR if failure.is_error else REASON_UNSCHEDULABLE
        known = info.pod.condition(POD_SCHEDULED)
        condition: Condition | None = Condition(
            type=POD_SCHEDULED,
            status="False",
            reason=reason,
            message=failure.message,
            last_transition_time=(
                known.last_transition_time
                if known is not None and known.status == "False" and known.last_transition_time
                else format_seconds(now.wall)
            ),
            observed_generation=info.pod.metadata.generation,
        )
        said = (known.reason, known.message) if known is not None and known.status == "False" else None
        written = self._last_condition.get(info.uid)
        if written == said:
            # It has come back: from now on the pod itself tells what it says.
            self._last_condition.pop(info.uid, None)
            written = None
        if (reason, failure.message) == (said if written is None else written):
            condition = None
        else:
            self._last_condition[info.uid] = (reason, failure.message)
        nominated = self._nomination_to_write(info, failure.nomination)
        if condition is None and nominated is None:
            return None
        ticket = self._new_ticket()
        self._tickets[ticket] = info.uid
        return PatchPodStatus(ticket, reference(info), condition, nominated)

    def _nomination_to_write(self, info: PodInfo, nomination: Nomination) -> str | None:
        """None where the pod says so already, and nothing else is under way."""
        if nomination.mode is NominationMode.KEEP:
            return None
        wanted = nomination.node_name if nomination.mode is NominationMode.SET else ""
        present = info.pod.status.nominated_node_name
        written = self._last_nomination.pop(info.uid, present)
        if wanted == present == written:
            return None
        self._last_nomination[info.uid] = wanted
        return wanted

    def status_written(self, ticket: int, is_done: bool) -> None:
        """A status that did not arrive will be written again by the next attempt."""
        uid = self._tickets.pop(ticket, "")
        if not is_done:
            self._last_condition.pop(uid, None)
            self._last_nomination.pop(uid, None)


def reference(info: PodInfo) -> PodReference:
    return PodReference(info.namespace, info.name, info.uid)


def cut_note(message: str) -> str:
    """At most MAX_NOTE_BYTES of UTF-8; what is cut off shows as `` ...``."""
    encoded = message.encode()
    if len(encoded) <= MAX_NOTE_BYTES:
        return message
    return encoded[: MAX_NOTE_BYTES - 4].decode(errors="ignore") + " ..."
