"""Events about pods, as events.k8s.io/v1: repeated ones become a series, floods are paced, old ones dropped first.

An event that repeats within six minutes (same controller, action, reason, type, objects and note) is one Event with a
series, not many: the second occurrence patches it, later ones are only counted, and the count is written again when the
series has been silent for six minutes or every thirty (reference cycle.md §13, KEP-383). Another note is another Event:
a series keeps its first note, so that ``kubectl describe`` would go on showing a reason that has passed. kube-scheduler
1.36 comes to the same by the pod's resourceVersion, which the condition with the new reason has changed.

Pacing: where many bindings are open, events give way to them, for a few seconds at most: a pod that starts is worth
more than the tale of one that has. ``Scheduled`` is not held back otherwise. All others share one token bucket (100 a
second, 500 at once by default) and take turns by namespace, so that neither 10,000 pods that fit nowhere nor the
victims of a thousand preemptions drown the API server, hold up what makes room, or silence the other namespaces.
Queues are bounded: the oldest of the namespace with the most goes first. Losing events never touches scheduling.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from scheduler.controller.lead.leadership import Leadership
from scheduler.controller.settings import WriterSettings
from scheduler.controller.write.client import STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.controller.write.request_limiter import RequestLimiter
from scheduler.engine.failure import cut_note
from scheduler.errors import ApiError
from scheduler.messages.commands import WriteEvent
from scheduler.messages.references import PodReference
from scheduler.objects.timestamps import format_micros

SERIES_SECONDS = 6 * 60.0
SERIES_REFRESH_SECONDS = 30 * 60.0
SWEEP_SECONDS = 60.0
LONGEST_NAME = 253
EVENT_TIMEOUT_SECONDS = 10.0
SCHEDULED = "Scheduled"
STUCK_SECONDS = 2.0
LOOK_SECONDS = 0.1
EVENT_TRIES = 3

EventKey = tuple[str, str, str, str, PodReference, PodReference | None, str]

log = structlog.get_logger()


@dataclass(slots=True)
class _Series:
    """What has been said, and how often. ``name`` "" until the first Event was stored."""

    event: WriteEvent
    name: str = ""
    count: int = 1
    written_count: int = 0
    first_wall: int = 0
    last_wall: int = 0
    last_seen: float = 0.0
    written_at: float = 0.0
    is_queued: bool = False


@dataclass(slots=True)
class EventCounts:
    written: int = 0
    aggregated: int = 0
    dropped: int = 0
    failed: int = 0


class EventRecorder:
    """``record`` from anywhere on the event loop; ``start`` and ``close`` around."""

    def __init__(
        self,
        client: ApiClient,
        leadership: Leadership,
        hostname: str,
        settings: WriterSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = time.time_ns,
        on_room: Callable[[], None] = lambda: None,
        gives_way: Callable[[], bool] = lambda: False,
        is_crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self.counts = EventCounts()
        self._gives_way = gives_way
        self._is_crowded = is_crowded
        self._on_room = on_room
        self._client = client
        self._leadership = leadership
        self._hostname = hostname
        self._settings = settings
        self._monotonic = monotonic
        self._wall = wall
        self._series: OrderedDict[EventKey, _Series] = OrderedDict()
        self._bound: deque[_Series] = deque()
        self._others: OrderedDict[str, deque[_Series]] = OrderedDict()
        """Namespace → its events other than Scheduled, in the order in which the namespaces have their turns."""
        self._other_count = 0
        self._limiter = RequestLimiter(settings.other_events_per_second, settings.other_events_burst, clock=monotonic)
        self._crowded_limiter = RequestLimiter(settings.crowded_events_per_second, 1, clock=monotonic)
        self._open_bound = 0
        """Queued or in flight."""
        self._holds_up = False
        """``has_room`` has said no."""
        self._last_progress = monotonic()
        """When a ``Scheduled`` event last left, or began to wait with no other before it."""
        self._bound_idle = asyncio.Event()
        self._bound_idle.set()
        self._has_bound = asyncio.Semaphore(0)
        self._has_other = asyncio.Semaphore(0)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for number in range(self._settings.events_in_flight):
            self._tasks.append(asyncio.create_task(self._bound_worker(), name=f"event worker {number}"))
        for number in range(max(self._settings.events_in_flight // 4, 1)):
            self._tasks.append(asyncio.create_task(self._other_worker(), name=f"other event worker {number}"))
        self._tasks.append(asyncio.create_task(self._sweeper(), name="event series"))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    @property
    def queued(self) -> int:
        return len(self._bound) + self._other_count

    @property
    def has_room(self) -> bool:
        """False asks for no further decisions, so that what is told of them is not told much later: bindings come
        before their events, but not by much. Events that do not leave at all hold up nothing.
        """
        if not self._bound:
            return True
        now = self._monotonic()
        waits = now - self._bound[0].last_seen
        self._holds_up = waits >= self._settings.event_lag_seconds and now - self._last_progress <= STUCK_SECONDS
        return not self._holds_up

    async def settle(self, seconds: float) -> None:
        """Give the queued ``Scheduled`` events so long to leave: each tells of something that has been done."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._bound_idle.wait()

    def record(self, event: WriteEvent) -> None:
        key = _key(event)
        now = self._monotonic()
        series = self._series.get(key)
        if series is None or now - series.last_seen > SERIES_SECONDS:
            series = self._series[key] = _Series(event, first_wall=self._wall())
        else:
            series.count += 1
            self.counts.aggregated += 1
        series.last_seen = now
        series.last_wall = self._wall()
        self._series.move_to_end(key)
        while len(self._series) > self._settings.event_series_kept:
            self._series.popitem(last=False)
        if series.count <= 2 and not series.is_queued:
            self._enqueue(series)

    # --- queue -------------------------------------------------------------------------------------------------------

    def _enqueue(self, series: _Series) -> None:
        series.is_queued = True
        if series.event.reason == SCHEDULED:
            self._bound.append(series)
            if self._open_bound == 0:
                self._last_progress = self._monotonic()
            self._open_bound += 1
            self._bound_idle.clear()
            if len(self._bound) > self._settings.events_queued:
                self._drop(self._bound.popleft())
                self._close_bound()
            self._has_bound.release()
            return
        self._others.setdefault(series.event.regarding.namespace, deque()).append(series)
        self._other_count += 1
        if self._other_count > self._settings.events_queued:
            longest = max(self._others.values(), key=len)
            self._drop(longest.popleft())
            self._other_count -= 1
        self._has_other.release()

    def _drop(self, series: _Series) -> None:
        series.is_queued = False
        self.counts.dropped += 1

    def _close_bound(self) -> None:
        self._open_bound -= 1
        self._last_progress = self._monotonic()
        if self._holds_up and self.has_room:
            self._holds_up = False
            self._on_room()
        if self._open_bound == 0:
            self._bound_idle.set()

    def _next_other(self) -> _Series | None:
        """The oldest of the namespace whose turn it is."""
        while self._others:
            namespace, lane = self._others.popitem(last=False)
            if not lane:
                continue
            series = lane.popleft()
            self._other_count -= 1
            if lane:
                self._others[namespace] = lane
            return series
        return None

    async def _bound_worker(self) -> None:
        while True:
            await self._has_bound.acquire()
            if not self._bound:
                continue
            series = self._bound.popleft()
            try:
                await self._let_bindings_pass(series)
                await self._write(series)
            finally:
                self._close_bound()

    async def _other_worker(self) -> None:
        while True:
            await self._has_other.acquire()
            await self._limiter.admit()
            series = self._next_other()
            if series is None:
                continue
            await self._let_bindings_pass(series)
            if self._is_crowded() and self._monotonic() - series.last_seen < self._settings.crowded_patience_seconds:
                await self._crowded_limiter.admit()
            await self._write(series)

    async def _let_bindings_pass(self, series: _Series) -> None:
        """Workers are few, so a look now and then costs less than being told of every binding that ends."""
        latest = series.last_seen + self._settings.event_patience_seconds
        while self._gives_way() and (rest := latest - self._monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(LOOK_SECONDS, rest))

    async def _sweeper(self) -> None:
        """Writes the counts of series that fell silent, and of long ones now and then; forgets the silent."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        now = self._monotonic()
        for key, series in list(self._series.items()):
            is_over = now - series.last_seen > SERIES_SECONDS
            is_due = now - series.written_at > SERIES_REFRESH_SECONDS
            has_news = bool(series.name) and series.count > series.written_count
            if has_news and (is_over or is_due) and not series.is_queued:
                self._enqueue(series)
            if is_over:
                del self._series[key]

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _write(self, series: _Series) -> None:
        """POST the first, PATCH the series of a repeated one. Failures are counted and otherwise forgotten."""
        series.is_queued = False
        if not self._leadership.is_held():
            self.counts.dropped += 1
            return
        for attempt in range(EVENT_TRIES):
            count = series.count
            try:
                if series.name:
                    await self._patch(series)
                else:
                    await self._post(series)
            except ApiError as error:
                if series.name and error.is_not_found:
                    # The API server forgets events after an hour: begin again.
                    series.name = ""
                    series.first_wall = self._wall()
                    series.count = 1
                    continue
                if not error.is_transient or attempt == EVENT_TRIES - 1:
                    self._report_failure(series, error)
                    return
                await asyncio.sleep(min(error.retry_after or 0.1 * (attempt + 1), 5.0))
            except Exception:
                self.counts.failed += 1
                log.exception("Event could not be written")
                return
            else:
                self.counts.written += 1
                series.written_count = count
                series.written_at = self._monotonic()
                if series.written_count < 2 <= series.count and not series.is_queued:
                    self._enqueue(series)
                return

    def _report_failure(self, series: _Series, error: ApiError) -> None:
        self.counts.failed += 1
        # A namespace that is going away takes no new events; nothing to report.
        if not error.is_not_found and error.status != 403:
            log.info("Event could not be written", pod=series.event.regarding.key, error=str(error))
        elif self.counts.failed == 1:
            log.warning("Event could not be written", pod=series.event.regarding.key, error=str(error))

    async def _post(self, series: _Series) -> None:
        body = self._body(series)
        name = body["metadata"]["name"]
        path = _events_path(series.event.regarding.namespace)
        try:
            await self._client.request(
                "POST", path, body=msgspec.json.encode(body), timeout_seconds=EVENT_TIMEOUT_SECONDS
            )
        except ApiError as error:
            # Sent again after an answer that was lost: it is there, which is all that was wanted.
            if error.reason != "AlreadyExists":
                raise
        series.name = name

    async def _patch(self, series: _Series) -> None:
        body = {"series": {"count": series.count, "lastObservedTime": format_micros(series.last_wall)}}
        await self._client.request(
            "PATCH",
            f"{_events_path(series.event.regarding.namespace)}/{series.name}",
            body=msgspec.json.encode(body),
            content_type=STRATEGIC_MERGE_PATCH,
            timeout_seconds=EVENT_TIMEOUT_SECONDS,
        )

    def _body(self, series: _Series) -> dict[str, Any]:
        event = series.event
        suffix = f".{series.first_wall:x}"
        pod_name = event.regarding.name[: LONGEST_NAME - len(suffix)].rstrip("-.")
        instance = f"{event.reporting_controller}-{self._hostname}"
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": pod_name + suffix, "namespace": event.regarding.namespace or "default"},
            "eventTime": format_micros(series.first_wall),
            "reportingController": event.reporting_controller,
            "reportingInstance": instance[:128],
            "action": event.action,
            "reason": event.reason,
            "regarding": _reference(event.regarding),
            "note": cut_note(event.note),
            "type": event.type,
        }
        if event.related is not None:
            body["related"] = _reference(event.related)
        return body


def _key(event: WriteEvent) -> EventKey:
    source = (event.reporting_controller, event.action, event.reason, event.type)
    return (*source, event.regarding, event.related, event.note)


def _reference(pod: PodReference) -> dict[str, str]:
    return {"kind": "Pod", "apiVersion": "v1", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _events_path(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace or 'default'}/events"
