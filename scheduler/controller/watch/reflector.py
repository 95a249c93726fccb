"""Keeps the engine informed of every object of one kind: list, watch, and list again when the watch has lost its place.

One class serves every kind that decisions read. It runs until cancelled, and no answer of the API server can make it
miss a deletion for good: each new list is compared with the known objects (docs/kube-scheduler/cycle.md §1, traps 71,
72).

Errors never remove known objects: only a watch event, a complete list, or discovery does, the latter where the kind is
optional and no longer served. Every wait is bounded, and retries back off.

An unreadable object is skipped, and its last readable version stays in force: a running pod keeps its resources and a
node keeps accepting pods, since most changes are heartbeats and the like. It is logged and counted until it can be read
again or is gone. A known object of the same name with another UID is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import structlog

from scheduler.controller.step_watch import Step, unwatched
from scheduler.controller.watch.backoff import Backoff
from scheduler.controller.watch.discovery import is_served
from scheduler.controller.watch.health import Health
from scheduler.controller.watch.lines import Lines
from scheduler.controller.watch.outage import Outage
from scheduler.controller.watch.pages import Pages
from scheduler.controller.watch.versions import Endings, version_of
from scheduler.controller.write.client import Answer, ApiClient
from scheduler.errors import ApiError, InvalidObject
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.sharing import Sharing
from scheduler.objects.wire import (
    DELETED,
    ERROR,
    ListPage,
    WatchEvent,
    decode_list,
    decode_list_in_parts,
    decode_watch_line,
)

PAGE_SIZE = 500
WATCH_SECONDS = (240, 300)
"""Bounds of a watch's duration in seconds, which is chosen at random so that not all watches end at once."""
RESUMES_BEFORE_RELIST = 5
SHORT_WATCH_SECONDS = 1.0
"""The minimum time between the starts of two watches."""
STEADY_WATCH_SECONDS = 10.0
"""A watch that was open for this long resets the back-off: the next error starts with a short wait."""
MAX_PAGES = 10_000
MAX_REPORTS_KEPT = 1000
MAX_LOGGED = 300
"""Characters logged of a text from outside."""

POD_FIELD_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
"""Excludes pods that have ended, which hold no resources: they arrive as deletions."""

Sink = Callable[[Sequence[Stimulus]], None]
"""Takes stimuli synchronously."""

log = structlog.get_logger()


async def unlimited() -> None:
    """The room of a sink that takes everything at once."""


@dataclass(frozen=True, slots=True)
class WatchTimes:
    """Durations in seconds. ``idle``: the time without a byte after which a watch counts as dead; kube-apiserver sends
    a bookmark every 60 to 75 s. ``missing_kind``: the interval of discovery requests for a kind that is not served.
    ``max_retry_after``: the upper bound of the server's Retry-After."""

    idle: float = 90.0
    missing_kind: float = 60.0
    max_retry_after: float = 30.0


class WatchPlaceLost(Exception):
    """The resource version or continue token to resume from is too old: list again."""


class Reflector:
    """Runs until cancelled. ``synced`` is set once all objects of the first list have been passed to the sink.

    ``with_documents``: objects are passed on with their JSON, for extenders. ``room`` is awaited before more is read
    from the network.
    """

    def __init__(
        self,
        kind: Kind,
        client: ApiClient,
        sink: Sink,
        *,
        page_size: int = PAGE_SIZE,
        with_documents: bool = False,
        times: WatchTimes = WatchTimes(),
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
        step: Step = unwatched,
        outage: Outage | None = None,
        room: Callable[[], Awaitable[None]] = unlimited,
    ) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self.health = Health.LISTING
        self.trouble = ""
        """The last error since the API server sent anything for the kind."""
        self.rejected = 0
        """The number of unreadable objects, lines and lists so far."""
        self.unreadable: set[str] = set()
        """The keys of the objects whose present version is unreadable."""
        self.relists = 0
        self._client = client
        self._sink = sink
        self.with_documents = with_documents
        self._times = times
        self._step = step
        self._room = room
        self._sharing = Sharing()
        self._outage = outage or Outage()
        self._backoff = backoff or Backoff()
        self._rng = rng or random.Random()
        self._known: dict[str, ApiObject] = {}
        self._seen: set[str] = set()
        self._endings = Endings()
        self.resource_version = ""
        self._resumes = 0
        self._heard_at: float | None = None
        self._reported: set[str] = set()
        self._deleted: set[str] | None = None
        self.path = kind.entry.collection_path()
        self.selector = {"fieldSelector": POD_FIELD_SELECTOR} if kind is Kind.POD else {}
        self._pages = Pages(client, self.path, self.selector, page_size)

    @property
    def object_count(self) -> int:
        return len(self._known)

    @property
    def known(self) -> Mapping[str, ApiObject]:
        """The objects passed to the sink, by key."""
        return self._known

    @property
    def silence_seconds(self) -> float:
        """Seconds since the API server last sent anything for this kind: a page of a list, a line of a watch, a
        bookmark, or that the kind is not served. 0.0 before the start. An accepted watch request does not count."""
        return time.monotonic() - self._heard_at if self._heard_at is not None else 0.0

    @contextlib.contextmanager
    def noting_deletions(self) -> Iterator[Collection[str]]:
        """Collects the keys of objects that the watch deletes within the block."""
        self._deleted = deleted = set[str]()
        try:
            yield deleted
        finally:
            self._deleted = None

    def mend(self, missed: Sequence[tuple[ApiObject, bytes]], gone: Sequence[str]) -> None:
        """Passes on changes that the watch has missed: new or newer objects, with their JSON if ``with_documents``, and
        keys of deleted ones."""
        stimuli: list[Stimulus] = [
            ObjectDeleted(self.kind, self._known.pop(key), is_stale=True) for key in gone if key in self._known
        ]
        for one, document in missed:
            self._observe(one.key, self._known.get(one.key), one, stimuli, document)
        if stimuli:
            self._sink(stimuli)

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
        self._seen = seen = set[str]()
        self.unreadable = set()
        version = await self._take_pages()
        stale = [key for key in self._known if key not in seen]
        if stale:
            self._sink([ObjectDeleted(self.kind, self._known.pop(key), is_stale=True) for key in stale])
        self.resource_version = version
        # A new watch begins behind the list; versions may even have gone back, with a backup of etcd.
        self._outage.recovered(self.kind.value)
        self._endings.clear()
        self._resumes = 0
        self._reported = {text for text in self._reported if text.startswith("object ")}
        self._seen = set()
        self.synced.set()

    async def _take_pages(self) -> str:
        """Passes on all pages; returns the list's resource version. While one is applied, the next is under way."""
        request = asyncio.ensure_future(self._request_page(""))
        version = token = ""
        try:
            for _ in range(MAX_PAGES):
                parts = self._parts_of((await request).body)
                is_first = True
                while (part := self._take_part(parts)) is not None:
                    if is_first and part.continue_token:
                        request = asyncio.ensure_future(self._request_page(part.continue_token))
                    version, token, is_first = part.resource_version, part.continue_token, False
                    await asyncio.sleep(0)
                    await self._room()
                if not token:
                    return version
            raise ApiError(0, "EndlessList", f"the list has more than {MAX_PAGES} pages")
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
            return decode_list_in_parts(self.kind, body, with_documents=self.with_documents)
        return iter((decode_list(self.kind, body, with_documents=self.with_documents),))

    def _take_part(self, parts: Iterator[ListPage]) -> ListPage | None:
        with self._step(f"list of {self.kind.value}"):
            part = next(parts, None)
            if part is not None:
                self._hear()
                self._hand_over_page(part)
            return part

    def _hand_over_page(self, page: ListPage) -> None:
        stimuli: list[Stimulus] = []
        for fault in page.faults:
            self._reject(fault, stimuli)
        for read, document in zip(page.objects, page.documents or repeat(b""), strict=False):
            key = read.key
            self._seen.add(key)
            known = self._known.get(key)
            if known is None or known.metadata.resource_version != read.metadata.resource_version:
                self._observe(key, known, read, stimuli, document)
        if stimuli:
            self._sink(stimuli)

    # --- watch -------------------------------------------------------------------------------------------------------

    async def _watch(self) -> float | None:
        """Runs one watch request, from where the last one ended, until the server ends it in order. Returns the wait in
        seconds before the next one, None for no wait."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.resource_version,
            "timeoutSeconds": str(self._rng.randint(*WATCH_SECONDS)),
            **self.selector,
        }
        lines = Lines()
        had_news = False
        async with self._client.stream(self.path, query=query, idle_seconds=self._times.idle) as body:
            self.health = Health.WATCHING
            opened = time.monotonic()
            try:
                while chunk := await body.readany():
                    if whole := lines.whole(chunk):
                        with self._step(f"watch of {self.kind.value}"):
                            self.take(whole)
                        had_news = True
                        self._resumes = 0
                        await self._room()
            finally:
                lasted = time.monotonic() - opened
                if lasted >= STEADY_WATCH_SECONDS:
                    self._backoff.reset()
        if had_news:
            return SHORT_WATCH_SECONDS - lasted if lasted < SHORT_WATCH_SECONDS else None
        self._count_resume()
        return self._backoff.next_seconds() if lasted < SHORT_WATCH_SECONDS else None

    def take(self, data: bytes) -> None:
        """Processes complete lines of a watch. The events before a line that breaks the watch are still passed on."""
        stimuli: list[Stimulus] = []
        try:
            for line in data.split(b"\n"):
                if line and not line.isspace():
                    event = decode_watch_line(self.kind, line, with_document=self.with_documents)
                    self._take_event(event, stimuli)
                    self._hear()
        finally:
            if stimuli:
                self._sink(stimuli)

    def _take_event(self, event: WatchEvent, stimuli: list[Stimulus]) -> None:
        if event.error is not None or event.type == ERROR:
            error = event.error or ApiError(500, "WatchError", "the watch failed")
            raise WatchPlaceLost(str(error)) if error.is_gone else error
        if event.fault is not None:
            self._reject(event.fault, stimuli)
            if event.type == DELETED:
                # Even if unreadable, it is deleted: the name is enough.
                self._take_away(event.fault.name, stimuli)
        elif event.object is not None:
            self._take_object(event.type, event.object, stimuli, event.document)
        self.resource_version = event.resource_version or self.resource_version

    def _take_object(self, type_: str, read: ApiObject, stimuli: list[Stimulus], document: bytes) -> None:
        key = read.key
        known = self._known.get(key)
        if self._endings.is_outdated(key, known, read):
            return
        if type_ != DELETED:
            # The same version again is no change, and would only retry its pod (trap 80).
            if known is None or known.metadata.resource_version != read.metadata.resource_version:
                self._observe(key, known, read, stimuli, document)
        else:
            is_same = known is not None and known.metadata.uid == read.metadata.uid
            self._take_away(key, stimuli, read if is_same else None)
            self._endings.note(key, version_of(read))

    def _take_away(self, key: str, stimuli: list[Stimulus], last: ApiObject | None = None) -> None:
        """Removes an object. ``last``: its state at the deletion, None if unknown."""
        self.unreadable.discard(key)
        known = self._known.pop(key, None)
        if self._deleted is not None:
            self._deleted.add(key)
        if known is not None:
            stimuli.append(ObjectDeleted(self.kind, last or known, is_stale=last is None))

    def _observe(
        self, key: str, known: ApiObject | None, read: ApiObject, stimuli: list[Stimulus], document: bytes = b""
    ) -> None:
        if known is not None and known.metadata.uid != read.metadata.uid:
            stimuli.append(ObjectDeleted(self.kind, known, is_stale=True))
        self._sharing.share(read)
        self._known[key] = read
        self.unreadable.discard(key)
        stimuli.append(ObjectObserved(self.kind, read, document))

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
            self.health = Health.FORBIDDEN
            verb = "watch" if self.resource_version else "list"
            trouble = "missing right" if error.status == 403 else "not authenticated"
            self._report_once(f"{trouble}: {verb} {self.kind.value}", error)
            return self._wait_after(error)
        if error.is_not_found and self.kind.entry.is_optional and await self._is_not_served():
            self._kind_is_missing()
            return self._times.missing_kind
        if error.status or error.reason == "Timeout" or self.health is Health.WATCHING:
            # A watch that was accepted and then cut counts, too: a kind whose watches never last until their first
            # bookmark would not be heard of otherwise.
            self._count_resume()
        if self.health is not Health.WATCHING or error.reason != "Timeout":
            self._report_once("API server can't be watched, trying again", error)
        self.health = Health.UNREACHABLE
        return self._wait_after(error)

    def _wait_after(self, error: ApiError) -> float:
        return max(self._backoff.next_seconds(), min(error.retry_after or 0.0, self._times.max_retry_after))

    def _after_unreadable(self, error: InvalidObject) -> float:
        """Handles a page, or a line whose object can't be identified: a fault of some intermediary, so that the same
        request is tried again."""
        self.trouble = str(error)
        self.rejected += 1
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
        if self._known:
            self._sink([ObjectDeleted(self.kind, known, is_stale=True) for known in self._known.values()])
            self._known.clear()
        self.unreadable = set()
        self.resource_version = ""
        self._hear()
        self.health = Health.MISSING_KIND
        if "missing kind" not in self._reported:
            self._reported.add("missing kind")
            log.warning("API server does not serve this kind, taken as empty", kind=self.kind.value, path=self.path)
        self.synced.set()

    def _hear(self) -> None:
        self._heard_at = time.monotonic()
        self.trouble = ""

    def _count_resume(self) -> None:
        """Counts watches that end without a line; after some of them, lists again."""
        self._resumes += 1
        if self._resumes >= RESUMES_BEFORE_RELIST:
            self._forget_place("watches end without news")

    def _forget_place(self, reason: str) -> None:
        if self.resource_version:
            log.info("Listing again", kind=self.kind.value, reason=reason)
        self.resource_version = ""
        self._resumes = 0

    def _reject(self, error: InvalidObject, stimuli: list[Stimulus]) -> None:
        """Skips an unreadable object. Its last readable version stays, unless it belongs to another UID."""
        self.rejected += 1
        self._seen.add(error.name)
        known = self._known.get(error.name)
        if known is not None and error.uid and known.metadata.uid != error.uid:
            self._take_away(error.name, stimuli)
        self.unreadable.add(error.name)
        if f"object {error.name}" not in self._reported and len(self._reported) < MAX_REPORTS_KEPT:
            self._reported.add(f"object {error.name}")
            log.warning(
                "Object can't be read, skipped",
                kind=self.kind.value,
                name=error.name[:MAX_LOGGED],
                reason=error.reason[:MAX_LOGGED],
            )

    def _report_once(self, text: str, error: ApiError) -> None:
        """Logs once until the next successful list, so that an outage causes one line per kind and not thousands."""
        if Outage.concerns(error):
            self._outage.report(text, self.kind.value, error)
        elif text not in self._reported:
            self._reported.add(text)
            log.error(text, kind=self.kind.value, error=str(error), status=error.status)
