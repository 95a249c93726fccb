"""Writes events about pods, as events.k8s.io/v1: repeated ones as a series, the oldest dropped when too many wait.

``pacing`` decides when an event is sent: ``Scheduled`` within seconds, all others when nothing more urgent is queued.
The others are sent by namespace in turn, so that neither 10,000 pods that fit nowhere nor the victims of a thousand
preemptions starve the other namespaces. Queues are bounded: of the others, the oldest of the namespace
with the most is dropped first. Losing events never touches scheduling.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from scheduler.controller.write.begun import WriteEnd
from scheduler.controller.write.client import STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.controller.write.direct import Outgoing
from scheduler.controller.write.event_series import EventSeries, Series
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_exchange import Answer
from scheduler.controller.write.leadership import Leadership, LeadershipLost
from scheduler.controller.write.outbox import ANSWERED, UNANSWERED, Cancellable, Outbox, Sendable, Sent, in_a_task
from scheduler.controller.write.pacing import Rank
from scheduler.controller.write.writer_settings import WriterSettings
from scheduler.errors import ApiError
from scheduler.messages.commands import WriteEvent
from scheduler.messages.now import Now
from scheduler.objects.status import NAMESPACE_TERMINATING

SWEEP_SECONDS: Final = 60.0
EVENT_TIMEOUT_SECONDS: Final = 10.0
MAX_RETRY_AFTER_SECONDS: Final = 5.0
MAX_TRIES: Final = 3

log = structlog.get_logger()

_encode = msgspec.json.Encoder().encode


class EventCounts(Struct):
    written: int = 0
    aggregated: int = 0
    dropped: int = 0
    failed: int = 0


class EventRecorder:
    """Queues and writes events. ``record`` from anywhere on the event loop; ``keep_up`` is a task."""

    def __init__(
        self,
        client: ApiClient,
        leadership: Leadership,
        hostname: str,
        settings: WriterSettings,
        outbox: Outbox,
        clock: Callable[[], Now],
    ) -> None:
        self.counts = EventCounts()
        self._client = client
        self._leadership = leadership
        self._hostname = hostname
        self._outbox = outbox
        self._clock = clock
        self._limit = settings.events_queued
        self._series = EventSeries(settings.event_series_kept)
        self._bound: deque[Series] = deque()
        self._others: OrderedDict[str, deque[Series]] = OrderedDict()
        """Namespace → its events other than Scheduled, in the order in which the namespaces have their turns."""
        self._other_count = 0
        self._is_forbidden = False
        """A right was missing, and no event has been written since."""

    @property
    def queued(self) -> int:
        return len(self._bound) + self._other_count

    async def settle(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the ``Scheduled`` events to be sent: their bindings have been made."""
        return await self._outbox.settle(seconds, Rank.SCHEDULED)

    def record(self, event: WriteEvent) -> None:
        series = self._series.add(event, self._clock())
        if series.count > 1:
            self.counts.aggregated += 1
        # The second occurrence makes it a series. One that could not be stored may come to be with the next occurrence.
        if (series.count == 2 or not series.name) and not series.is_queued:
            self._enqueue(series)

    def sweep(self) -> None:
        for series in self._series.sweep(self._clock()):
            if not series.is_queued:
                self._enqueue(series)

    async def keep_up(self) -> None:
        """Write the counts of series that are over or have gone on for long, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    # --- queue -------------------------------------------------------------------------------------------------------

    def _enqueue(self, series: Series) -> None:
        """Queue the series. Where another is dropped for it, its write is in the outbox already: that of the other."""
        series.is_queued = True
        if series.is_of_binding:
            self._bound.append(series)
            if len(self._bound) > self._limit:
                self._drop(self._bound.popleft())
            else:
                self._outbox.submit(EventWrite(self, Rank.SCHEDULED))
            return
        self._others.setdefault(series.namespace, deque()).append(series)
        if self._other_count >= self._limit:
            self._drop(max(self._others.values(), key=len).popleft())
            return
        self._other_count += 1
        self._outbox.submit(EventWrite(self, Rank.EVENT))

    def _drop(self, series: Series) -> None:
        series.is_queued = False
        self.counts.dropped += 1

    def next_of(self, rank: Rank) -> Series | None:
        """The next event of this class; None if it was dropped meanwhile."""
        if rank is Rank.SCHEDULED:
            return self._bound.popleft() if self._bound else None
        return self._next_other()

    def over(self, series: Series) -> None:
        """The event's write has ended, or was given up. Occurrences since then make it a series to be patched."""
        series.is_queued = False
        if series.written_count == 1 < series.count:
            self._enqueue(series)

    def _next_other(self) -> Series | None:
        """The oldest event of the namespace that is next in turn."""
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

    # --- requests ----------------------------------------------------------------------------------------------------

    def post(self, write: EventWrite, series: Series) -> Cancellable:
        """POST the first event of a series."""
        body = series.body(self._hostname)
        write.count, write.name = series.count, body.metadata.name
        outgoing = Outgoing("POST", _events_path(series), _encode(body), EVENT_TIMEOUT_SECONDS)
        return self._client.begin(outgoing, Departure(self._leadership), write.posted)

    def posted(self, write: EventWrite, series: Series, end: WriteEnd) -> Sent:
        """The outcome of ``post``."""
        # Sent again after a lost answer: the event exists, as intended.
        if isinstance(end, Answer) or (isinstance(end, ApiError) and end.reason == "AlreadyExists"):
            series.name = write.name
            return self._written(series, write.count)
        return self._failed(series, end, write.tries)

    async def patch(self, series: Series, tries: int) -> Sent:
        """PATCH the series of a repeated event."""
        count = series.count
        try:
            await self._patch(series)
        except Exception as error:  # noqa: BLE001 - logged where it is unexpected
            return self._failed(series, error, tries)
        return self._written(series, count)

    def _written(self, series: Series, count: int) -> Sent:
        self.counts.written += 1
        self._is_forbidden = False
        series.written(count, self._clock())
        return ANSWERED

    def _failed(self, series: Series, error: Exception, tries: int) -> Sent:
        """Failures are counted, and retried a few times where that may help."""
        if isinstance(error, LeadershipLost):
            self.counts.dropped += 1
            return ANSWERED
        if isinstance(error, ApiError):
            return self._after_failure(series, error, tries)
        self.counts.failed += 1
        log.error("Event could not be written", exc_info=error)
        return ANSWERED

    def _after_failure(self, series: Series, error: ApiError, tries: int) -> Sent:
        is_answered = error.status != 0
        if tries < MAX_TRIES:
            if series.name and error.is_not_found:
                series.begin_again(self._clock())
                return Sent(is_answered, 0.0)
            if error.is_transient:
                return Sent(is_answered, min(error.retry_after or 0.1 * tries, MAX_RETRY_AFTER_SECONDS))
        self.counts.failed += 1
        # A namespace that is terminating, or gone, takes no new events; nothing to report.
        is_namespaces_end = error.is_not_found or error.reason == NAMESPACE_TERMINATING
        if error.is_forbidden and not is_namespaces_end:
            if not self._is_forbidden:
                log.warning("Event could not be written", pod=series.event.regarding.key, error=str(error))
            self._is_forbidden = True
        elif not is_namespaces_end:
            log.info("Event could not be written", pod=series.event.regarding.key, error=str(error))
        return ANSWERED if is_answered else UNANSWERED

    async def _patch(self, series: Series) -> None:
        await self._client.request(
            "PATCH",
            f"{_events_path(series)}/{series.name}",
            body=_encode(series.change()),
            content_type=STRATEGIC_MERGE_PATCH,
            timeout_seconds=EVENT_TIMEOUT_SECONDS,
            departure=Departure(self._leadership),
        )


class EventWrite(Struct, eq=False):
    """The write of one event, which is chosen when it is sent."""

    recorder: EventRecorder
    rank: Rank
    key: str = ""
    is_continuation: bool = False
    series: Series | None = None
    tries: int = 0
    count: int = 0
    name: str = ""
    """The name of the event that is sent, and how often it had occurred then."""
    on_sent: Callable[[Sent], None] | None = None

    def folded_over(self, older: Sendable) -> None:
        return None

    def begin(self, on_sent: Callable[[Sent], None]) -> Cancellable | None:
        series = self.series = self.series or self.recorder.next_of(self.rank)
        if series is None:
            on_sent(ANSWERED)
            return None
        self.tries += 1
        self.on_sent = on_sent
        if series.name:
            return in_a_task(self.recorder.patch(series, self.tries), self._ended)
        return self.recorder.post(self, series)

    def posted(self, end: WriteEnd) -> None:
        """The request has ended."""
        assert self.series is not None
        self._ended(self.recorder.posted(self, self.series, end))

    def _ended(self, sent: Sent) -> None:
        """``on_sent`` leads back to this write: it would wait for the garbage collector."""
        on_sent, self.on_sent = self.on_sent, None
        if sent.retry_after is None and self.series is not None:
            self.recorder.over(self.series)
        if on_sent is not None:
            on_sent(sent)


def _events_path(series: Series) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{series.namespace}/events"
