"""Keeps the engine informed of every object of one kind: list, watch, and list again when the watch has lost its place.

One class serves every kind that decisions read. It runs until cancelled, and no answer makes it miss a deletion for
good: each new list is compared with the known objects (docs/kube-scheduler/cycle.md §1, traps 71, 72).

Errors never remove known objects: only a watch event, a complete list, or discovery does, the latter where the kind is
optional and no longer served. Every wait is bounded, and retries back off.

The known objects, and what a list or a watch changes about them, are in ``mirror.py``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import structlog
from msgspec import Struct

from scheduler.controller.report.outage import Outage
from scheduler.controller.step_watch import Step, unwatched
from scheduler.controller.watch.backoff import Backoff
from scheduler.controller.watch.discovery import is_served
from scheduler.controller.watch.health import MAX_SILENCE_SECONDS, Health
from scheduler.controller.watch.lines import Lines, parts_of
from scheduler.controller.watch.mirror import MAX_LOGGED, Mirror
from scheduler.controller.watch.pages import Pages
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.http_exchange import Answer
from scheduler.errors import ApiError, InvalidObject
from scheduler.messages.stimuli import Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.wire import (
    ERROR,
    ListPage,
    WatchEvent,
    decode_list,
    decode_list_in_parts,
    decode_watch_line,
)

PAGE_SIZE = 500
RESUMES_BEFORE_RELIST = 5
SHORT_WATCH_SECONDS = 1.0
"""The minimum time between the starts of two watches."""
STEADY_WATCH_SECONDS = 10.0
"""A watch that was open for this long resets the back-off: the next error starts with a short wait."""

POD_FIELD_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
"""Excludes pods that have ended, which hold no resources: they arrive as deletions."""

log = structlog.get_logger()


Change = Callable[[Sequence[Stimulus]], Sequence[Stimulus]]


def unchanged(stimuli: Sequence[Stimulus]) -> Sequence[Stimulus]:
    return stimuli


class Intake(Protocol):
    """Takes stimuli synchronously; ``room`` is awaited before more is read from the network."""

    def put_all(self, stimuli: Sequence[Stimulus], /) -> None: ...

    async def room(self) -> None: ...


class WatchTimes(Struct, frozen=True):
    """Durations in seconds. ``watch``: bounds of a watch's, chosen at random so that not all end at once; it ends
    ``idle`` later even if the server does not end it. ``idle``: the time without a byte after which a watch counts as
    dead; kube-apiserver sends a bookmark every 60 to 75 s. ``missing_kind``: the interval of discovery requests for a
    kind that is not served. ``max_retry_after``: the most of a Retry-After. ``quiet``: a watch without a line that ends
    after a longer silence is followed by a list, so that a bookmark comes before ``MAX_SILENCE_SECONDS`` are over."""

    watch: tuple[int, int] = (240, 300)
    idle: float = 90.0
    quiet: float = MAX_SILENCE_SECONDS - 75.0
    missing_kind: float = 60.0
    max_retry_after: float = 30.0


class Reading(Struct, frozen=True):
    """How a kind is read and passed on. ``page_size`` in objects; ``with_documents``: objects are passed on with their
    JSON, for extenders; ``change`` is applied to stimuli on their way; ``selector``: the query parameters that choose
    objects, None for those that decisions depend on."""

    page_size: int = PAGE_SIZE
    with_documents: bool = False
    times: WatchTimes = WatchTimes()
    change: Change = unchanged
    selector: Mapping[str, str] | None = None


DEFAULT_READING: Final = Reading()


class WatchPlaceLost(Exception):
    """The resource version or continue token to resume from is too old: list again."""


class Reflector:
    """Runs until cancelled. ``synced`` is set once all objects of the first list have been passed on.

    ``step`` and ``outage`` are shared by all reflectors: they watch durations, and report what concerns every kind.
    """

    def __init__(
        self,
        kind: Kind,
        client: ApiClient,
        intake: Intake,
        reading: Reading = DEFAULT_READING,
        *,
        backoff: Backoff | None = None,
        step: Step = unwatched,
        outage: Outage | None = None,
    ) -> None:
        self.kind = kind
        self.mirror = Mirror(kind)
        self.reading = reading
        self.synced = asyncio.Event()
        self.health = Health.LISTING
        self.trouble = ""
        """The last error since the API server sent anything for the kind."""
        self.relists = 0
        self._client = client
        self._intake = intake
        self._step = step
        self._outage = outage or Outage()
        self._backoff = backoff or Backoff()
        self.resource_version = ""
        self._resumes = 0
        self._heard_at: float | None = None
        self._reported: set[str] = set()
        """Texts logged since the last complete list."""
        self.path = kind.entry.collection_path()
        of_decisions = {"fieldSelector": POD_FIELD_SELECTOR} if kind is Kind.POD else {}
        self.selector = of_decisions if reading.selector is None else dict(reading.selector)
        self._pages = Pages(client, self.path, self.selector, reading.page_size)

    @property
    def object_count(self) -> int:
        return len(self.mirror.known)

    @property
    def known(self) -> Mapping[str, ApiObject]:
        """The objects passed on, by key."""
        return self.mirror.known

    @property
    def silence_seconds(self) -> float:
        """Seconds since the API server last sent anything for this kind: a page of a list, a line of a watch, a
        bookmark, or that the kind is not served. 0.0 before the start. An accepted watch request does not count."""
        return time.monotonic() - self._heard_at if self._heard_at is not None else 0.0

    def mend(self, missed: Sequence[tuple[ApiObject, bytes]], gone: Sequence[str]) -> None:
        """Passes on changes that the watch has missed (see ``Mirror.mend``)."""
        self._pass_on(self.mirror.mend(missed, gone))

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        self._heard_at = time.monotonic()
        while True:
            try:
                if not self.resource_version:
                    await self.list_once()
                wait = await self._watch()
            except WatchPlaceLost as reason:
                self._forget_place(str(reason))
                wait = self._backoff.next_seconds()
            except ApiError as error:
                wait = await self._after_error(error)
            except InvalidObject as error:
                wait = self._after_unreadable(error)
            except Exception as error:
                log.exception("Reflector failed, listing again", kind=self.kind.value)
                self._forget_place("internal error")
                self.trouble = f"internal error: {error}"
                wait = self._backoff.next_seconds()
            if wait is not None:
                await asyncio.sleep(wait)

    # --- list --------------------------------------------------------------------------------------------------------

    async def list_once(self) -> None:
        """Passes on new and changed objects page by page, then the deletions of objects missing from the list."""
        if self.synced.is_set():
            self.relists += 1
        self.health = Health.LISTING
        self.mirror.begin_list()
        version = await self._take_pages()
        self._pass_on(self.mirror.end_list())
        self.resource_version = version
        self._outage.recovered(self.kind.value)
        self._resumes = 0
        self._reported.clear()
        self.synced.set()

    async def _take_pages(self) -> str:
        """Passes on all pages; returns the list's resource version. While one is applied, the next is under way."""
        request = asyncio.ensure_future(self._request_page(""))
        version = token = ""
        try:
            while True:
                parts = self._parts_of((await request).body)
                is_first = True
                while (part := self._take_part(parts)) is not None:
                    if is_first and part.continue_token:
                        request = asyncio.ensure_future(self._request_page(part.continue_token))
                    version, token, is_first = part.resource_version, part.continue_token, False
                    await asyncio.sleep(0)
                    await self._intake.room()
                if not token:
                    return version
        finally:
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)

    async def _request_page(self, token: str) -> Answer:
        try:
            return await self._pages.request(token)
        except ApiError as error:
            if token and error.is_gone:
                raise WatchPlaceLost("the list went stale between two pages") from error
            raise

    def _parts_of(self, body: bytes) -> Iterator[ListPage]:
        """At least one part. Before the first list is complete nothing is scheduled, and the whole page at once is
        decoded quicker; later, parts of a page let others have their turn."""
        if self.synced.is_set():
            return decode_list_in_parts(self.kind, body, with_documents=self.reading.with_documents)
        return iter((decode_list(self.kind, body, with_documents=self.reading.with_documents),))

    def _take_part(self, parts: Iterator[ListPage]) -> ListPage | None:
        with self._step(f"list of {self.kind.value}"):
            part = next(parts, None)
            if part is not None:
                self._mark_heard()
                self._pass_on(self.mirror.take_page(part))
            return part

    def _pass_on(self, stimuli: Sequence[Stimulus]) -> None:
        if stimuli:
            self._intake.put_all(self.reading.change(stimuli))

    # --- watch -------------------------------------------------------------------------------------------------------

    async def _watch(self) -> float | None:
        """Runs one watch request, from where the last one ended, until the server ends it in order. Returns the wait in
        seconds before the next one, None for no wait."""
        idle, seconds = self.reading.times.idle, random.randint(*self.reading.times.watch)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.resource_version,
            "timeoutSeconds": str(seconds),
            **self.selector,
        }
        lines, had_news = Lines(), False
        stream = self._client.stream(self.path, query=query, idle_seconds=idle)
        async with stream as body, asyncio.timeout(seconds + idle):
            self.health = Health.WATCHING
            opened = time.monotonic()
            try:
                while chunk := await body.read():
                    if whole := lines.whole(chunk):
                        await self._take_in_parts(whole)
                        had_news = True
                        self._resumes = 0
            finally:
                lasted = time.monotonic() - opened
                if lasted >= STEADY_WATCH_SECONDS:
                    self._backoff.reset()
        if had_news:
            self._outage.recovered(self.kind.value)
            return SHORT_WATCH_SECONDS - lasted if lasted < SHORT_WATCH_SECONDS else None
        self._count_resume()
        return self._backoff.next_seconds() if lasted < SHORT_WATCH_SECONDS else None

    async def _take_in_parts(self, lines: bytes) -> None:
        """``take``, in steps between which others have their turn."""
        is_first = True
        for part in parts_of(lines):
            if not is_first:
                await asyncio.sleep(0)
            is_first = False
            with self._step(f"watch of {self.kind.value}"):
                self.take(part)
            await self._intake.room()

    def take(self, data: bytes) -> None:
        """Processes complete lines of a watch. The events before a line that breaks the watch are still passed on."""
        stimuli: list[Stimulus] = []
        try:
            for line in data.split(b"\n"):
                if line and not line.isspace():
                    event = decode_watch_line(self.kind, line, with_document=self.reading.with_documents)
                    self._take_event(event, stimuli)
                    self._mark_heard()
        finally:
            self._pass_on(stimuli)

    def _take_event(self, event: WatchEvent, stimuli: list[Stimulus]) -> None:
        if event.error is not None or event.type == ERROR:
            error = event.error or ApiError(500, "WatchError", "the watch failed")
            raise WatchPlaceLost(str(error)) if error.is_gone else error
        self.mirror.take_event(event, stimuli)
        self.resource_version = event.resource_version or self.resource_version

    # --- trouble -----------------------------------------------------------------------------------------------------

    async def _after_error(self, error: ApiError) -> float:
        """Handles an error's consequences for the resource version; returns the wait in seconds.

        An error never removes objects: a kind's objects go only if it is optional and discovery does not list it.
        """
        self.trouble = str(error)
        if error.is_gone:
            self._forget_place(str(error))
            return self._backoff.next_seconds()
        if error.is_forbidden:
            self.health = Health.FORBIDDEN if error.status == 403 else Health.UNAUTHENTICATED
            verb = "watch" if self.resource_version else "list"
            self._report_once(f"{self.health.value}: {verb} {self.kind.value}", error)
            return self._wait_after(error)
        if error.is_not_found and self.kind.entry.is_optional and await self._is_not_served():
            self._kind_is_missing()
            return self.reading.times.missing_kind
        if error.status or error.reason == "Timeout" or self.health is Health.WATCHING:
            # A watch that was accepted and then cut counts, too: a kind whose watches never last until their first
            # bookmark would not be heard of otherwise.
            self._count_resume()
        if self.health is not Health.WATCHING or error.reason != "Timeout":
            self._report_once("API server can't be watched, trying again", error)
        self.health = Health.UNREACHABLE
        return self._wait_after(error)

    def _wait_after(self, error: ApiError) -> float:
        return max(self._backoff.next_seconds(), min(error.retry_after or 0.0, self.reading.times.max_retry_after))

    def _after_unreadable(self, error: InvalidObject) -> float:
        """Handles a page, or a line whose object can't be identified: a fault of some intermediary, so that the same
        request is tried again."""
        self.trouble = str(error)
        self.mirror.rejected += 1
        self.health = Health.UNREACHABLE
        log.warning("Watch or list can't be read, trying again", kind=self.kind.value, error=str(error)[:MAX_LOGGED])
        self._count_resume()
        return self._backoff.next_seconds()

    async def _is_not_served(self) -> bool:
        try:
            return not await is_served(self._client, self.kind)
        except ApiError as error:
            self.trouble = str(error)
            return False

    def _kind_is_missing(self) -> None:
        """Handles a kind that the API server lacks or no longer serves, like an empty list."""
        self._pass_on(self.mirror.clear())
        self.resource_version = ""
        self._mark_heard()
        self._outage.recovered(self.kind.value)
        self.health = Health.MISSING_KIND
        if "missing kind" not in self._reported:
            self._reported.add("missing kind")
            log.warning("API server does not serve this kind, taken as empty", kind=self.kind.value, path=self.path)
        self.synced.set()

    def _mark_heard(self) -> None:
        self._heard_at = time.monotonic()
        self.trouble = ""

    def _count_resume(self) -> None:
        """Counts watches that end without a line; after some of them, or a long silence, lists again."""
        self._resumes += 1
        if self._resumes >= RESUMES_BEFORE_RELIST or self.silence_seconds > self.reading.times.quiet:
            self._forget_place("watches end without news")

    def _forget_place(self, reason: str) -> None:
        if self.resource_version:
            log.info("Listing again", kind=self.kind.value, reason=reason)
        self.resource_version = ""
        self._resumes = 0

    def _report_once(self, text: str, error: ApiError) -> None:
        """Logs once until the next successful list, so that an outage causes one line per kind and not thousands."""
        if Outage.concerns(error, is_watch=self.health is Health.WATCHING):
            self._outage.report(text, self.kind.value, error)
        elif text not in self._reported:
            self._reported.add(text)
            log.error(text, kind=self.kind.value, error=str(error), status=error.status)
