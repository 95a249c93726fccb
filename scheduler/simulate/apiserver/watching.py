"""A watch: streams a collection's changes since a revision as JSON lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from scheduler.simulate.apiserver import events, failures, kinds
from scheduler.simulate.apiserver.kinds import Kind
from scheduler.simulate.apiserver.registry import shown_object
from scheduler.simulate.apiserver.selectors import Matcher
from scheduler.simulate.apiserver.store import Change, ChangeType, Store, Stored

Object = dict[str, Any]
_encode = msgspec.json.Encoder().encode


def typed_body(kind: Kind, stored: Stored) -> bytes:
    """An object's JSON with kind and API version, as in single-object responses and watches."""
    body = _encode(events.from_core(stored.object)) if kind is kinds.EVENTS else stored.body
    return b'{"kind":"%b","apiVersion":"%b",%b' % (kind.kind.encode(), kind.api_version.encode(), body[1:])


def list_item(kind: Kind, stored: Stored) -> bytes:
    """An object's JSON as an item of a list."""
    return _encode(events.from_core(stored.object)) if kind is kinds.EVENTS else stored.body


def error_line(failure: failures.Failure) -> bytes:
    return _encode({"type": "ERROR", "object": failure.body()}) + b"\n"


class WatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A client's watch request. `revision` None: the present state first, then the changes."""

    kind: Kind
    namespace: str | None
    matches: Matcher | None
    revision: int | None
    bookmarks: bool
    timeout_seconds: float


class Watch:
    """One running watch. `render` converts an object to a Table or another format; None: plain, shared lines."""

    def __init__(
        self, store: Store, request: WatchRequest, bookmark_seconds: float,
        render: Callable[[Stored], Object] | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._request = request
        self._render = render
        self._bookmark_seconds = bookmark_seconds
        self._collection = store.collection(request.kind)
        self._bell = asyncio.Event()
        self._closed = False
        self.is_cut = False
        """The connection is to be broken instead of ended."""
        self._position = 0

    def close(self, *, cut: bool = False) -> None:
        """Ends the watch from the server's side, as a server that shuts down does; or cuts it, as a network does."""
        self.is_cut = cut
        self._closed = True
        self._bell.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields blocks of JSON lines until the time-out, the loss of history, or `close`."""
        self._collection.bells.add(self._bell)
        try:
            for block in self._first():
                yield block
            async for block in self._following():
                yield block
        finally:
            self._collection.bells.discard(self._bell)

    def _first(self) -> list[bytes]:
        request, collection = self._request, self._collection
        if request.revision is None:
            self._position = collection.end
            present = [
                self._line("ADDED", one)
                for one in collection.every(request.namespace)
                if request.matches is None or request.matches(one.object)
            ]
            if request.bookmarks:
                present.append(self._bookmark({"k8s.io/initial-events-end": "true"}))
            return [b"".join(present)] if present else []
        if request.revision < collection.forgotten:
            self._closed = True
            return [error_line(self._too_old(request.revision))]
        self._position = collection.position_after(request.revision)
        return []

    async def _following(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._request.timeout_seconds
        next_bookmark = loop.time() + self._bookmark_seconds
        while not self._closed:
            self._bell.clear()
            block = self._fresh()
            if block:
                yield block
                continue
            now = loop.time()
            if now >= deadline:
                return
            if self._request.bookmarks and now >= next_bookmark:
                next_bookmark = now + self._bookmark_seconds
                yield self._bookmark(None)
                continue
            until = min(deadline, next_bookmark) if self._request.bookmarks else deadline
            try:
                await asyncio.wait_for(self._bell.wait(), until - now)
            except TimeoutError:
                continue

    def _fresh(self) -> bytes:
        collection = self._collection
        if self._position < collection.first:
            self._closed = True
            return error_line(self._too_old(collection.forgotten))
        if self._position == collection.end:
            return b""
        changes = collection.changes[self._position - collection.first :]
        self._position = collection.end
        return b"".join(filter(None, map(self._event_line, changes)))

    def _too_old(self, revision: int) -> failures.Failure:
        return failures.expired(f"too old resource version: {revision} ({self._collection.forgotten})")

    def _event_line(self, change: Change) -> bytes:
        """The line for one change: an object that starts or stops matching is ADDED or DELETED for this client."""
        request = self._request
        if request.namespace is not None and change.current.namespace != request.namespace:
            return b""
        if request.matches is None:
            return self._shared(change, change.type, change.current)
        before = change.previous is not None and request.matches(change.previous.object)
        if change.type == "DELETED":
            return self._shared(change, "DELETED", change.current) if before else b""
        if request.matches(change.current.object):
            return self._shared(change, "MODIFIED" if before else "ADDED", change.current)
        if not before or change.previous is None:
            return b""
        last = change.previous.object
        left = {**last, "metadata": {**last["metadata"], "resourceVersion": str(change.revision)}}
        return self._line("DELETED", Stored(change.current.namespace, change.current.name, left, change.revision))

    def _shared(self, change: Change, type_: ChangeType, stored: Stored) -> bytes:
        if self._render is not None:
            return self._line(type_, stored)
        key = (self._request.kind.api_version, type_)
        line = change.lines.get(key)
        if line is None:
            line = change.lines[key] = self._line(type_, stored)
        return line

    def _line(self, type_: ChangeType, stored: Stored) -> bytes:
        if self._render is not None:
            return _encode({"type": type_, "object": self._render(stored)}) + b"\n"
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), typed_body(self._request.kind, stored))

    def _bookmark(self, annotations: Object | None) -> bytes:
        kind = self._request.kind
        metadata: Object = {"resourceVersion": str(self._store.revision)}
        if annotations:
            metadata["annotations"] = annotations
        stored = Stored("", "", {"metadata": metadata}, self._store.revision)
        if self._render is not None:
            return _encode({"type": "BOOKMARK", "object": self._render(stored)}) + b"\n"
        return _encode({"type": "BOOKMARK", "object": shown_object(kind, stored)}) + b"\n"
