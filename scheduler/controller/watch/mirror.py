"""The known objects of one kind: compares what a list or a watch says with them, and returns the difference as stimuli.

An unreadable object is skipped, and its last readable version stays in force: a running pod keeps its resources and a
node keeps accepting pods, since most changes are heartbeats and the like. It is logged and counted until it can be read
again or is gone. A known object of the same name with another UID is removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final

import structlog

from scheduler.controller.watch.versions import Endings, version_of
from scheduler.errors import InvalidObject
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject, number_of_version
from scheduler.objects.resource_claims import Allocation, ResourceClaim
from scheduler.objects.sharing import Sharing
from scheduler.objects.wire import DELETED, ListPage, WatchEvent

MAX_REPORTS_KEPT: Final = 1000
MAX_LOGGED: Final = 300
"""Characters logged of a text from outside."""

log = structlog.get_logger()


class Mirror:
    """The stimuli that its methods return have to be passed on, in their order."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.known: dict[str, ApiObject] = {}
        """The objects passed on, by key."""
        self.unreadable: set[str] = set()
        """The keys of the objects whose present version is unreadable."""
        self.rejected = 0
        """The number of unreadable objects, lines and lists so far."""
        self._sharing = Sharing()
        self._endings = Endings()
        self._listed: set[str] = set()
        self._put_off: dict[str, tuple[ApiObject, bytes]] = {}
        """The changed claims of the list so far, by key."""
        self._answered: dict[str, ApiObject] = {}
        """Objects that answers to writes have shown, and no list or watch yet, new or in a newer version: they count
        like known ones."""
        self._newest = 0
        """The newest version that a list, or an object of a watch, has had."""
        self._went_back = False
        """Whether the list under way is older than that."""
        self._list_version = 0
        self._deleted: set[str] | None = None
        self._reported: set[str] = set()

    # --- lists --------------------------------------------------------------------------------------------------------

    def begin_list(self) -> None:
        self._listed = set()
        self._put_off = {}
        # What an answer showed before the list began counts as known before it, whether it is listed or not.
        self._count_as_known(list(self._answered))
        self._went_back = False
        self.unreadable = set()

    def take_page(self, page: ListPage) -> list[Stimulus]:
        """New and changed objects of a part of a list; those of claims come with the list's end."""
        stimuli: list[Stimulus] = []
        self._compare_versions(page.resource_version)
        for fault in page.faults:
            self._reject(fault, stimuli)
        for read, document in zip(page.objects, page.documents or repeat(b""), strict=False):
            key = read.key
            self._listed.add(key)
            known = self.known.get(key)
            if self._went_back and known is not None and _is_renumbered(known, read):
                stimuli.append(ObjectDeleted(self.kind, self.known.pop(key), is_stale=True))
                known = None
            if known is None or known.metadata.resource_version != read.metadata.resource_version:
                if self.kind is Kind.RESOURCE_CLAIM:
                    self._put_off[key] = read, document
                else:
                    self._observe(key, known, read, stimuli, document)
        return stimuli

    def end_list(self) -> list[Stimulus]:
        """The deletions of objects missing from the list, which is complete.

        The next watch begins behind the list, whose versions may even have gone back, with a backup of etcd.
        """
        self._newest = self._list_version or self._newest
        stale = [key for key in self.known if key not in self._listed]
        self._listed = set()
        self._endings.clear()
        changed, self._put_off = [*self._put_off.values()], {}
        stimuli: list[Stimulus] = [ObjectDeleted(self.kind, self.known.pop(key), is_stale=True) for key in stale]
        self._observe_all(changed, stimuli)
        return stimuli

    def clear(self) -> list[Stimulus]:
        """Deletions of all objects: the kind is not served."""
        self._count_as_known(list(self._answered))
        stimuli: list[Stimulus] = [ObjectDeleted(self.kind, known, is_stale=True) for known in self.known.values()]
        self.known.clear()
        self.unreadable = set()
        return stimuli

    def _compare_versions(self, listed: str) -> None:
        """``listed``: the version of the list under way. A list is never older than what was seen before it, unless the
        API server's state went back; from then on the same numbers stand for other versions."""
        self._list_version = number_of_version(listed)
        if 0 < self._list_version < self._newest and not self._went_back:
            self._went_back = True
            log.warning("API server's state went back, as after a restore of etcd", kind=self.kind.value)

    # --- watches ------------------------------------------------------------------------------------------------------

    def take_event(self, event: WatchEvent, stimuli: list[Stimulus]) -> None:
        """Appends what an event of a watch, which is no error, has changed."""
        if event.fault is not None:
            self._reject(event.fault, stimuli)
            if event.type == DELETED:
                # Even if unreadable, it is deleted: the name is enough.
                self._take_away(event.fault.name, stimuli)
        elif event.object is not None:
            self._take_object(event.type, event.object, stimuli, event.document)

    def _take_object(self, type_: str, read: ApiObject, stimuli: list[Stimulus], document: bytes) -> None:
        key = read.key
        known = self.known.get(key)
        if self._endings.is_outdated(key, known, read):
            return
        if type_ != DELETED:
            self._newest = max(self._newest, version_of(read))
            # The same version again is no change, and would only retry its pod (trap 80).
            if known is None or known.metadata.resource_version != read.metadata.resource_version:
                self._observe(key, known, read, stimuli, document)
        else:
            is_same = known is not None and known.metadata.uid == read.metadata.uid
            self._take_away(key, stimuli, read if is_same else None)
            self._endings.note(key, version_of(read))

    # --- answers to writes --------------------------------------------------------------------------------------------

    def answered(self, written: ApiObject) -> list[Stimulus]:
        """Note an object in the answer to a write, once it has been passed on: one that is made and deleted in a gap of
        the watch is in no list, and no watch shows it. Returns its deletion where the watch was quicker."""
        known = self.known.get(written.key)
        if known is not None:
            if known.uid == written.uid and version_of(known) < version_of(written):
                self._answered[written.key] = written
            return []
        if self._endings.is_outdated(written.key, None, written):
            return [ObjectDeleted(self.kind, written, is_stale=True)]
        self._answered[written.key] = written
        return []

    def latest(self, key: str) -> ApiObject | None:
        """The object as a list, a watch or an answer has shown it last."""
        return self._answered.get(key) or self.known.get(key)

    @property
    def keys(self) -> Collection[str]:
        """The keys of all objects that lists, watches and answers have shown."""
        return self.known.keys() | self._answered.keys() if self._answered else self.known.keys()

    def _count_as_known(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key in self._answered:
                self.known[key] = self._answered.pop(key)

    # --- comparisons --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def noting_deletions(self) -> Iterator[Collection[str]]:
        """Collects the keys of objects that the watch deletes within the block."""
        self._deleted = deleted = set[str]()
        try:
            yield deleted
        finally:
            self._deleted = None

    def mend(self, missed: Sequence[tuple[ApiObject, bytes]], gone: Sequence[str]) -> list[Stimulus]:
        """The stimuli of changes that the watch has missed: objects in another version, with their JSON where it is
        passed on, and keys of deleted ones."""
        self._count_as_known([*gone, *(one.key for one, _ in missed)])
        stimuli: list[Stimulus] = [ObjectDeleted(self.kind, self.known.pop(key), is_stale=True) for key in gone]
        self._observe_all(missed, stimuli)
        return stimuli

    def _observe_all(self, changed: Sequence[tuple[ApiObject, bytes]], stimuli: list[Stimulus]) -> None:
        """Applies changes whose order in time is unknown. Claims that give devices up come first: two claims may have
        had a device one after the other."""
        first = [change for change in changed if _allocation_of(change[0]) is None]
        others = [change for change in changed if _allocation_of(change[0]) is not None]
        for read, _ in changed:
            known = self.known.get(read.key)
            if known is not None and _is_another_claim(known, read):
                stimuli.append(ObjectDeleted(self.kind, self.known.pop(read.key), is_stale=True))
        for read, document in (*first, *others):
            self._observe(read.key, self.known.get(read.key), read, stimuli, document)

    # --- one object ---------------------------------------------------------------------------------------------------

    def _take_away(self, key: str, stimuli: list[Stimulus], last: ApiObject | None = None) -> None:
        """Removes an object. ``last``: its state at the deletion, None if unknown."""
        self.unreadable.discard(key)
        answered, known = self._answered.pop(key, None), self.known.pop(key, None)
        known = known or answered
        if self._deleted is not None:
            self._deleted.add(key)
        if known is None:
            return
        if last is not None:
            # Most parts are equal: shared, what was computed from them need not be computed again.
            self._sharing.share(last, known)
        stimuli.append(ObjectDeleted(self.kind, last or known, is_stale=last is None))

    def _observe(
        self, key: str, known: ApiObject | None, read: ApiObject, stimuli: list[Stimulus], document: bytes = b""
    ) -> None:
        if known is not None and known.metadata.uid != read.metadata.uid:
            stimuli.append(ObjectDeleted(self.kind, known, is_stale=True))
        self._sharing.share(read, known)
        self.known[key] = read
        if self._answered and version_of(self._answered.get(key)) <= version_of(read):
            self._answered.pop(key, None)
        if self.unreadable:
            self.unreadable.discard(key)
        stimuli.append(ObjectObserved(self.kind, read, document))

    def _reject(self, error: InvalidObject, stimuli: list[Stimulus]) -> None:
        """Skips an unreadable object. Its last readable version stays, unless it belongs to another UID."""
        self.rejected += 1
        self._listed.add(error.name)
        known = self.known.get(error.name)
        if known is not None and error.uid and known.metadata.uid != error.uid:
            self._take_away(error.name, stimuli)
        self.unreadable.add(error.name)
        if error.name not in self._reported and len(self._reported) < MAX_REPORTS_KEPT:
            self._reported.add(error.name)
            log.warning(
                "Object can't be read, skipped",
                kind=self.kind.value,
                name=error.name[:MAX_LOGGED],
                reason=error.reason[:MAX_LOGGED],
            )


def _is_renumbered(known: ApiObject, read: ApiObject) -> bool:
    """Whether two objects of one version differ, since it was given out once before the state went back, and again."""
    return known.metadata.resource_version == read.metadata.resource_version and known != read


def _allocation_of(one: ApiObject) -> Allocation | None:
    return one.allocation if isinstance(one, ResourceClaim) else None


def _is_another_claim(known: ApiObject, read: ApiObject) -> bool:
    """Whether a claim is to be taken as one that was made again: it has got other devices; or it is older, as when etcd
    was restored from a backup. The engine takes no older version of a claim: answers to writes come before the watch.
    """
    if not isinstance(read, ResourceClaim):
        return False
    before, after = _allocation_of(known), read.allocation
    return version_of(read) < version_of(known) or (before is not None and after is not None and before != after)
