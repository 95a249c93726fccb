"""The queue's description of a pod for users: where it is, why, and which events would wake it."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from scheduler.queue.clock import QueueClock
from scheduler.queue.hints import HintMap
from scheduler.queue.queued_pod import QueuedPod


class Place(Enum):
    """The place of a pod; the values of the first four are the labels of ``pending_pods``."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    ERROR_BACKOFF = "error backoff"
    IN_FLIGHT = "in flight"


class PodStory(Struct, frozen=True):
    """The description of one pod. Times are nanoseconds since 1970; None where there is none."""

    pod: str
    """namespace/name"""
    uid: str
    scheduler_name: str
    place: Place
    since: int
    """When it was added or its last attempt failed."""
    first_ready: int | None
    attempts: int
    rejections: int
    errors_in_a_row: int
    rejected_by: tuple[str, ...]
    pending_on: tuple[str, ...]
    gated_by: str
    gating_reasons: tuple[str, ...]
    woken_by: tuple[str, ...]
    """Labels of the events that its rejectors registered, where it waits for one."""
    next_try: int | None
    """When it is tried again without an event; None: at once, or unknown. While no pod is active, rejected pods are
    tried before their back-off is over."""
    was_flushed: bool


def story_of(record: QueuedPod, place: Place, next_try: int | None, hints: HintMap, clock: QueueClock) -> PodStory:
    """Describes a record. ``next_try`` is queue time. Only the events of its gating plugin wake a gated pod."""
    woken_by: dict[str, None] = {}
    if place in (Place.UNSCHEDULABLE, Place.GATED):
        for plugin in (record.gating_plugin,) if record.is_gated else sorted(record.rejectors):
            woken_by.update((event.label, None) for event in hints.events_of(record.profile, plugin))
    first = record.initial_attempt
    return PodStory(
        pod=record.key,
        uid=record.uid,
        scheduler_name=record.profile,
        place=place,
        since=clock.wall(record.timestamp),
        first_ready=clock.wall(first) if first is not None else None,
        attempts=record.attempts,
        rejections=record.unschedulable_count,
        errors_in_a_row=record.error_count,
        rejected_by=tuple(sorted(record.rejectors)),
        pending_on=tuple(sorted(record.pending_plugins)),
        gated_by=record.gating_plugin,
        gating_reasons=record.gating_reasons,
        woken_by=tuple(woken_by),
        next_try=clock.wall(next_try) if next_try is not None else None,
        was_flushed=record.was_flushed,
    )
