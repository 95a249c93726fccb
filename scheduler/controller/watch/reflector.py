"""Keeps the engine told of every object of one kind: list, watch, and list again when the watch has lost its place.

One class for every kind that a decision reads. It never ends by itself, and nothing that the API server says can make
it miss a deletion for good: each new list is compared with what has been told (reference cycle.md §1, traps 71, 72).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import repeat

import structlog

from scheduler.controller.watch.backoff import Backoff
from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError, InvalidObject
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.kinds import KINDS, Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.wire import BOOKMARK, DELETED, ERROR, WatchEvent, decode_list, decode_watch_line

PAGE_SIZE = 500
LIST_TIMEOUT_SECONDS = 60.0
WATCH_SECONDS = (240, 300)
"""How long the server shall keep a watch open: at random between these, so that not all are renewed at once."""
IDLE_SECONDS = 90.0
"""A watch without a byte for so long is taken for dead; bookmarks come every minute."""
MISSING_KIND_SECONDS = 300.0
RESUMES_BEFORE_RELIST = 5
SHORT_WATCH_SECONDS = 1.0
REPORTS_KEPT = 1000

POD_FIELD_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
"""A pod that has ended holds nothing: it arrives as a deletion."""

Sink = Callable[[Sequence[Stimulus]], None]
"""Applies stimuli at once: it must not await."""

log = structlog.get_logger()


class Health(Enum):
    """What a reflector can say of itself; the value is the text for users."""

    LISTING = "listing"
    WATCHING = "watching"
    FORBIDDEN = "missing right"
    MISSING_KIND = "kind not served"
    UNREACHABLE = "unreachable"


class _ListAgain(Exception):
    """The watch's place is lost."""


class Reflector:
    """``run`` until cancelled. ``synced`` is set once everything that the first list held has been handed over.

    ``with_documents``: objects are handed over with their JSON, for extenders.
    """

    def __init__(
        self,
        kind: Kind,
        client: ApiClient,
        sink: Sink,
        *,
        page_size: int = PAGE_SIZE,
        with_documents: bool = False,
        idle_seconds: float = IDLE_SECONDS,
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self.health = Health.LISTING
        self.rejected = 0
        """How many objects could not be read."""
        self.relists = 0
        self._client = client
        self._sink = sink
        self._page_size = page_size
        self.with_documents = with_documents
        self._idle_seconds = idle_seconds
        self._backoff = backoff or Backoff()
        self._rng = rng or random.Random()
        self._known: dict[str, ApiObject] = {}
        self._seen: set[str] = set()
        self.resource_version = ""
        self._resumes = 0
        self._reported: set[str] = set()
        self._deleted: set[str] | None = None
        self.path = KINDS[kind].collection_path()
        self.selector = {"fieldSelector": POD_FIELD_SELECTOR} if kind is Kind.POD else {}

    @property
    def object_count(self) -> int:
        return len(self._known)

    @property
    def known(self) -> Mapping[str, ApiObject]:
        """What has been told, by key."""
        return self._known

    @contextlib.contextmanager
    def noting_deletions(self) -> Iterator[Collection[str]]:
        """The keys of what the watch deletes meanwhile."""
        self._deleted = deleted = set[str]()
        try:
            yield deleted
        finally:
            self._deleted = None

    def mend(self, missed: Sequence[tuple[ApiObject, bytes]], gone: Sequence[str]) -> None:
        """Hand over what the watch should have told: objects that are new or newer, each with its JSON where that is
        handed over, and keys of those that are gone."""
        stimuli: list[Stimulus] = [
            ObjectDeleted(self.kind, self._known.pop(key), is_stale=True) for key in gone if key in self._known
        ]
        for one, document in missed:
            self._observe(one.key, self._known.get(one.key), one, stimuli, document)
        if stimuli:
            self._sink(stimuli)

    async def run(self) -> None:
        """List and watch for ever. Only cancellation ends it."""
        while True:
            wait: float | None = None
            try:
                if not self.resource_version:
                    await self._list()
                wait = await self._watch()
            except _ListAgain as reason:
                self._forget_place(str(reason))
            except ApiError as error:
                wait = self._after_error(error)
            except InvalidObject as error:
                log.warning("Watch or list can't be read, listing again", kind=self.kind.value, error=str(error))
                self._forget_place("unreadable")
                wait = self._backoff.next_seconds()
            except Exception:
                log.exception("Reflector failed, listing again", kind=self.kind.value)
                self._forget_place("internal error")
                wait = self._backoff.next_seconds()
            if wait is not None:
                await asyncio.sleep(wait)

    # --- list --------------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        """Hand over what is new or changed page by page, then the deletions of what the list no longer holds."""
        if self.synced.is_set():
            self.relists += 1
        self.health = Health.LISTING
        self._seen = seen = set[str]()
        token, version = "", ""
        while True:
            query = {"limit": str(self._page_size), **self.selector}
            if token:
                query["continue"] = token
            try:
                answer = await self._client.request("GET", self.path, query=query, timeout_seconds=LIST_TIMEOUT_SECONDS)
            except ApiError as error:
                if token and error.is_gone:
                    raise _ListAgain("the list went stale between two pages") from error
                raise
            page = decode_list(self.kind, answer.body, with_documents=self.with_documents)
            for fault in page.faults:
                self._reject(fault)
            version = page.resource_version or version
            self._hand_over_page(page.objects, page.documents or repeat(b""))
            token = page.continue_token
            if not token:
                break
        stale = [key for key in self._known if key not in seen]
        if stale:
            self._sink([ObjectDeleted(self.kind, self._known.pop(key), is_stale=True) for key in stale])
        self.resource_version = version or "0"
        self._backoff.reset()
        self._resumes = 0
        self._reported = {text for text in self._reported if text.startswith("object ")}
        self._seen = set()
        self.synced.set()

    def _hand_over_page(self, objects: Sequence[ApiObject], documents: Iterable[bytes]) -> None:
        stimuli: list[Stimulus] = []
        for read, document in zip(objects, documents, strict=False):
            key = read.key
            self._seen.add(key)
            known = self._known.get(key)
            if known is None or known.metadata.resource_version != read.metadata.resource_version:
                self._observe(key, known, read, stimuli, document)
        if stimuli:
            self._sink(stimuli)

    # --- watch -------------------------------------------------------------------------------------------------------

    async def _watch(self) -> float | None:
        """One watch request, from where the last one ended. Returns when the server ends it in order: how long to
        wait before the next one, None for not at all."""
        began = time.monotonic()
        had_news = False
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.resource_version,
            "timeoutSeconds": str(self._rng.randint(*WATCH_SECONDS)),
            **self.selector,
        }
        rest = b""
        async with self._client.stream(self.path, query=query, idle_seconds=self._idle_seconds) as body:
            self.health = Health.WATCHING
            while chunk := await body.readany():
                end = chunk.rfind(b"\n")
                if end < 0:
                    rest += chunk
                    continue
                self.take(rest + chunk[: end + 1] if rest else chunk[: end + 1])
                rest = chunk[end + 1 :]
                had_news = True
                self._backoff.reset()
                self._resumes = 0
        if had_news:
            return None
        self._count_resume()
        return self._backoff.next_seconds() if time.monotonic() - began < SHORT_WATCH_SECONDS else None

    def take(self, data: bytes) -> None:
        """Whole lines of a watch. What stands before a line that breaks the watch is still handed over."""
        stimuli: list[Stimulus] = []
        try:
            for line in data.splitlines():
                if line:
                    event = decode_watch_line(self.kind, line, with_document=self.with_documents)
                    self._take_event(event, stimuli)
        finally:
            if stimuli:
                self._sink(stimuli)

    def _take_event(self, event: WatchEvent, stimuli: list[Stimulus]) -> None:
        if event.error is not None or event.type == ERROR:
            error = event.error or ApiError(500, "WatchError", "the watch failed")
            raise _ListAgain(str(error)) if error.is_gone else error
        if event.fault is not None and event.type != BOOKMARK:
            self._reject(event.fault)
            known = self._known.pop(event.fault.name, None) if event.type == DELETED else None
            # Unreadable or not, it is gone: its name is enough to say so.
            if known is not None:
                stimuli.append(ObjectDeleted(self.kind, known, is_stale=True))
        elif event.object is not None and event.type != BOOKMARK:
            self._take_object(event.type, event.object, stimuli, event.document)
        self.resource_version = event.resource_version or self.resource_version

    def _take_object(self, type_: str, read: ApiObject, stimuli: list[Stimulus], document: bytes) -> None:
        key = read.key
        known = self._known.get(key)
        if type_ != DELETED:
            # The same version again is nothing new, and would only try its pod again (trap 80).
            if known is None or known.metadata.resource_version != read.metadata.resource_version:
                self._observe(key, known, read, stimuli, document)
        elif known is not None:
            del self._known[key]
            if self._deleted is not None:
                self._deleted.add(key)
            is_same = known.metadata.uid == read.metadata.uid
            stimuli.append(ObjectDeleted(self.kind, read if is_same else known, is_stale=not is_same))

    def _observe(
        self, key: str, known: ApiObject | None, read: ApiObject, stimuli: list[Stimulus], document: bytes = b""
    ) -> None:
        if known is not None and known.metadata.uid != read.metadata.uid:
            stimuli.append(ObjectDeleted(self.kind, known, is_stale=True))
        self._known[key] = read
        stimuli.append(ObjectObserved(self.kind, read, document))

    # --- trouble -----------------------------------------------------------------------------------------------------

    def _after_error(self, error: ApiError) -> float:
        """What an error means for the place in the watch; answers how long to wait."""
        if error.is_gone:
            self._forget_place(str(error))
            return 0.0
        if error.is_forbidden:
            self.health = Health.FORBIDDEN
            verb = "watch" if self.resource_version else "list"
            trouble = "missing right" if error.status == 403 else "not authenticated"
            self._report_once(f"{trouble}: {verb} {self.kind.value}", error)
            return max(self._backoff.next_seconds(), error.retry_after or 0.0)
        if error.is_not_found:
            self._kind_is_missing()
            return MISSING_KIND_SECONDS
        if error.status or error.reason == "Timeout":
            self._count_resume()
        if self.health is not Health.WATCHING or error.reason != "Timeout":
            self._report_once("API server can't be watched, trying again", error)
        self.health = Health.UNREACHABLE
        return max(self._backoff.next_seconds(), error.retry_after or 0.0)

    def _kind_is_missing(self) -> None:
        """An older API server: as good as an empty list."""
        if self._known:
            self._sink([ObjectDeleted(self.kind, known, is_stale=True) for known in self._known.values()])
            self._known.clear()
        self.resource_version = ""
        self.health = Health.MISSING_KIND
        if "missing kind" not in self._reported:
            self._reported.add("missing kind")
            log.warning("API server does not serve this kind, taken as empty", kind=self.kind.value, path=self.path)
        self.synced.set()

    def _count_resume(self) -> None:
        """A watch that keeps ending without a line has perhaps lost its place: list again after some."""
        self._resumes += 1
        if self._resumes >= RESUMES_BEFORE_RELIST:
            self._forget_place("watches end without news")

    def _forget_place(self, reason: str) -> None:
        if self.resource_version:
            log.info("Listing again", kind=self.kind.value, reason=reason)
        self.resource_version = ""
        self._resumes = 0

    def _reject(self, error: InvalidObject) -> None:
        """Its last readable version, if there is one, stays: what runs goes on taking room."""
        self.rejected += 1
        self._seen.add(error.name)
        if f"object {error.name}" not in self._reported and len(self._reported) < REPORTS_KEPT:
            self._reported.add(f"object {error.name}")
            log.warning("Object can't be read, skipped", kind=self.kind.value, name=error.name, reason=error.reason)

    def _report_once(self, text: str, error: ApiError) -> None:
        """Once until the next successful list, so that an outage is one line a kind and not thousands."""
        if text not in self._reported:
            self._reported.add(text)
            log.error(text, kind=self.kind.value, error=str(error), status=error.status)
