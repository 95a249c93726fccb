"""The objects of the embedded cluster: one revision counter, one collection per resource, a bounded history each.

Objects are plain dictionaries without `kind` and `apiVersion` (the collection has them) and are never mutated: every
write stores a new dictionary that shares unchanged parts. So a listing, a snapshot of an unfinished paged listing and
an event of a watch are just references, and each version of an object is encoded once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from scheduler.simulate.apiserver.kinds import Kind

Object = dict[str, Any]
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

FIRST_REVISION: Final = 1
_encode = msgspec.json.Encoder().encode


class Stored:
    """One version of one object, with its JSON encoded on first use."""

    __slots__ = ("_body", "name", "namespace", "object", "revision")

    def __init__(self, namespace: str, name: str, obj: Object, revision: int) -> None:
        self.namespace = namespace
        self.name = name
        self.object = obj
        self.revision = revision
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        """The object's JSON as an item of a list: without kind and apiVersion."""
        if self._body is None:
            self._body = _encode(self.object)
        return self._body


class Change:
    """One write: the object before (None when created) and after (for a deletion: its last state)."""

    __slots__ = ("current", "lines", "previous", "revision", "type")

    def __init__(self, change_type: ChangeType, revision: int, current: Stored, previous: Stored | None) -> None:
        self.type = change_type
        self.revision = revision
        self.current = current
        self.previous = previous
        self.lines: dict[tuple[str, str], bytes] = {}
        """Encoded watch lines by (API version, type of event), shared by all watchers."""


class Collection:
    """The objects of one resource, by namespace and name, and their latest changes.

    `changes[0]` has absolute position `first`; a reader keeps the position that it will read next.
    Watches can't resume from revisions up to `forgotten`.
    """

    __slots__ = ("bells", "changes", "first", "forgotten", "limit", "spaces")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spaces: dict[str, dict[str, Stored]] = {}
        self.changes: list[Change] = []
        self.first = 0
        self.forgotten = 0
        self.bells: set[asyncio.Event] = set()

    @property
    def end(self) -> int:
        return self.first + len(self.changes)

    def get(self, namespace: str, name: str) -> Stored | None:
        space = self.spaces.get(namespace)
        return None if space is None else space.get(name)

    def every(self, namespace: str | None = None) -> Iterator[Stored]:
        """The objects of one namespace (None: all) in the server's order, by namespace and then name."""
        for space_name in sorted(self.spaces) if namespace is None else [namespace]:
            space = self.spaces.get(space_name, {})
            for name in sorted(space):
                yield space[name]

    def __len__(self) -> int:
        return sum(len(space) for space in self.spaces.values())

    def position_after(self, revision: int) -> int:
        """The position at which a watch resumes that has seen everything up to `revision`."""
        low, high = 0, len(self.changes)
        while low < high:
            middle = (low + high) // 2
            if self.changes[middle].revision <= revision:
                low = middle + 1
            else:
                high = middle
        return self.first + low

    def record(self, change: Change) -> None:
        self.changes.append(change)
        if len(self.changes) > 2 * self.limit:
            self.forget(len(self.changes) - self.limit)
        for bell in self.bells:
            bell.set()

    def forget(self, count: int) -> None:
        """Drops the oldest `count` changes: resuming from one of them gets 410."""
        if count > 0:
            self.forgotten = self.changes[count - 1].revision
            del self.changes[:count]
            self.first += count


class Store:
    """All collections. Every write gets the next revision and wakes that collection's readers.

    `history` is the maximum number of changes kept per resource.
    """

    def __init__(self, history: int = 50_000) -> None:
        self.revision = FIRST_REVISION
        self._history = history
        self._compacted = 0
        self._collections: dict[str, Collection] = {}

    def collection(self, kind: Kind) -> Collection:
        found = self._collections.get(kind.where)
        if found is None:
            found = self._collections[kind.where] = Collection(self._history)
            found.forgotten = self._compacted
        return found

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """The current object, or None. Don't mutate it."""
        stored = self.collection(kind).get(namespace, name)
        return None if stored is None else stored.object

    def list(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """The current objects in the server's order. Don't mutate them."""
        return [stored.object for stored in self.collection(kind).every(namespace)]

    def put(self, kind: Kind, namespace: str, name: str, obj: Object) -> Stored:
        """Creates or replaces an object with the next revision; its `metadata` must not be shared."""
        collection = self.collection(kind)
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        stored = Stored(namespace, name, obj, self.revision)
        space = collection.spaces.setdefault(namespace, {})
        previous = space.get(name)
        space[name] = stored
        collection.record(Change("ADDED" if previous is None else "MODIFIED", self.revision, stored, previous))
        return stored

    def remove(self, kind: Kind, namespace: str, name: str, last: Object | None = None) -> Stored:
        """Deletes an object: watchers get its `last` state (by default the stored one) with the deletion's revision."""
        collection = self.collection(kind)
        previous = collection.spaces[namespace].pop(name)
        self.revision += 1
        obj = previous.object if last is None else last
        gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        stored = Stored(namespace, name, gone, self.revision)
        collection.record(Change("DELETED", self.revision, stored, previous))
        return stored

    def compact(self) -> None:
        """Drops all history, as etcd's compaction does: resuming from an earlier revision gets 410.

        Running readers are not affected.
        """
        self._compacted = self.revision
        for collection in self._collections.values():
            collection.forgotten = self.revision


class Follower:
    """A reader of some collections' changes, in order and without loss, for simulated components."""

    def __init__(self, store: Store, *kinds: Kind) -> None:
        self._bell = asyncio.Event()
        self._collections = [(kind, store.collection(kind)) for kind in kinds]
        self._positions = [collection.end for _, collection in self._collections]
        for _, collection in self._collections:
            collection.bells.add(self._bell)

    async def changes(self) -> list[tuple[Kind, Change]]:
        """Waits for at least one change and returns all pending ones, in order."""
        while True:
            self._bell.clear()
            batch = self._unread()
            if batch:
                return batch
            await self._bell.wait()

    def _unread(self) -> list[tuple[Kind, Change]]:
        batch: list[tuple[Kind, Change]] = []
        for index, (kind, collection) in enumerate(self._collections):
            start = max(self._positions[index], collection.first)
            batch += [(kind, change) for change in collection.changes[start - collection.first :]]
            self._positions[index] = collection.end
        batch.sort(key=lambda one: one[1].revision)
        return batch

    def close(self) -> None:
        for _, collection in self._collections:
            collection.bells.discard(self._bell)
