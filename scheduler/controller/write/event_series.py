"""Events and their series: grouping of repeated events, and the objects that are written.

An event that repeats within six minutes (same controller, action, reason, type, objects and note) is one Event with a
series, not many: the second occurrence patches it, later ones are only counted, and the count is written again when the
series has been silent for six minutes or every thirty (docs/kube-scheduler/cycle.md §13, KEP-383). Another note is
another Event: a series keeps its first note, so that ``kubectl describe`` would keep showing an outdated reason.
kube-scheduler 1.36 has the same result through the pod's resourceVersion, which the condition with the new reason has
changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from scheduler.engine.failure import cut_note
from scheduler.messages.commands import Subject, WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.references import PodReference
from scheduler.objects.kinds import Kind
from scheduler.objects.timestamps import format_micros

SERIES_SECONDS: Final = 6 * 60.0
SERIES_REFRESH_SECONDS: Final = 30 * 60.0
MAX_NAME: Final = 253
MAX_INSTANCE: Final = 128
SCHEDULED: Final = "Scheduled"

_POD: Final = Kind.POD.entry


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str


class _Reference(msgspec.Struct, frozen=True):
    kind: str
    apiVersion: str
    namespace: str
    name: str
    uid: str


class EventBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="Event"):
    """An Event as it is sent. A Struct is built and encoded in a third of the time of a dict."""

    # Names as the API has them.
    apiVersion: Literal["events.k8s.io/v1"]
    metadata: _Metadata
    eventTime: str
    reportingController: str
    reportingInstance: str
    action: str
    reason: str
    regarding: _Reference
    note: str
    type: str
    related: _Reference | None = None


class Series(Struct, gc=False):
    """One event and how often it occurred. ``name`` is "" until the first Event was stored; times are ``Now``'s. Some
    thousand are kept, each without a way back to itself: the garbage collector need not look at them."""

    event: WriteEvent
    name: str = ""
    count: int = 1
    written_count: int = 0
    first_wall: int = 0
    last_wall: int = 0
    last_seen: float = 0.0
    written_at: float = 0.0
    is_queued: bool = False
    """Whether a write of it is queued or under way."""

    @property
    def is_of_binding(self) -> bool:
        return self.event.reason == SCHEDULED

    @property
    def namespace(self) -> str:
        return self.event.regarding.namespace or "default"

    def begin_again(self, now: Now) -> None:
        """Reset the series: the API server has deleted the Event, as it does after an hour."""
        self.name = ""
        self.first_wall = now.wall
        self.count = 1

    def written(self, count: int, now: Now) -> None:
        self.written_count = count
        self.written_at = now.monotonic

    def change(self) -> dict[str, Any]:
        """The patch that turns the stored Event into a series."""
        return {"series": {"count": self.count, "lastObservedTime": format_micros(self.last_wall)}}

    def body(self, hostname: str) -> EventBody:
        """The Event's body. Its name is made of the pod's and the time, so that it is the same when sent again."""
        event = self.event
        suffix = f".{self.first_wall:x}"
        pod_name = event.regarding.name[: MAX_NAME - len(suffix)].rstrip("-.")
        instance = f"{event.reporting_controller}-{hostname}"
        return EventBody(
            apiVersion="events.k8s.io/v1",
            metadata=_Metadata(pod_name + suffix, self.namespace),
            eventTime=format_micros(self.first_wall),
            reportingController=event.reporting_controller,
            reportingInstance=instance[:MAX_INSTANCE],
            action=event.action,
            reason=event.reason,
            regarding=_reference(event.regarding),
            note=cut_note(event.note),
            type=event.type,
            related=None if event.related is None else _reference(event.related),
        )


class EventSeries:
    """The series of the last minutes, at most ``limit``; the least recently seen are dropped first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_event: OrderedDict[WriteEvent, Series] = OrderedDict()

    def add(self, event: WriteEvent, now: Now) -> Series:
        """Count the event and return its series. That of a binding is not kept: a pod is bound once."""
        monotonic, wall = now.monotonic, now.wall
        is_of_binding = event.reason == SCHEDULED
        series = None if is_of_binding else self._by_event.pop(event, None)
        if series is None or monotonic - series.last_seen > SERIES_SECONDS:
            series = Series(event, first_wall=wall)
        else:
            series.count += 1
        series.last_seen, series.last_wall = monotonic, wall
        if is_of_binding:
            return series
        # Put last: so the first ones are those that have not been seen for the longest time.
        self._by_event[event] = series
        while len(self._by_event) > self._limit:
            self._by_event.popitem(last=False)
        return series

    def sweep(self, now: Now) -> Iterator[Series]:
        """Drop silent series. Yields those whose count must be written: silent ones, and long ones periodically."""
        for event, series in list(self._by_event.items()):
            is_over = now.monotonic - series.last_seen > SERIES_SECONDS
            is_due = now.monotonic - series.written_at > SERIES_REFRESH_SECONDS
            if series.name and series.count > series.written_count and (is_over or is_due):
                yield series
            if is_over:
                del self._by_event[event]


def _reference(thing: Subject) -> _Reference:
    entry = _POD if isinstance(thing, PodReference) else thing.kind.entry
    return _Reference(entry.name, entry.api_version, thing.namespace, thing.name, thing.uid)
