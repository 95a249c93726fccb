"""The latest observed version of every pod, where failed attempts look a pod up again."""

from __future__ import annotations

from collections.abc import Iterator, KeysView

from scheduler.cluster.pod_info import PodInfo


class KnownPods:
    """All pods that run or wait, of any scheduler, by ``namespace/name``; without finished ones."""

    __slots__ = ("_by_key", "_by_uid")

    def __init__(self) -> None:
        self._by_key: dict[str, PodInfo] = {}
        self._by_uid: dict[str, PodInfo] = {}

    def put(self, info: PodInfo) -> None:
        """Stores the newest version; a predecessor of the same name must have been removed."""
        self._by_key[info.key] = info
        self._by_uid[info.uid] = info

    def remove(self, info: PodInfo) -> PodInfo | None:
        """Removes a deleted pod and returns its last version. A successor of the same name stays."""
        known = self._by_uid.pop(info.uid, None)
        if known is not None and self._by_key[known.key] is known:
            del self._by_key[known.key]
        return known

    def get(self, key: str) -> PodInfo | None:
        """The pod with this ``namespace/name``, or None."""
        return self._by_key.get(key)

    def by_uid(self, uid: str) -> PodInfo | None:
        return self._by_uid.get(uid)

    @property
    def uids(self) -> KeysView[str]:
        return self._by_uid.keys()

    def __iter__(self) -> Iterator[PodInfo]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)
