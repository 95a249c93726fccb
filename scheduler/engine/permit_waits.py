"""The pods that wait in Permit, by their group: a plugin lets all of a group's go with one request."""

from __future__ import annotations


class PermitWaits:
    """UIDs by group (``namespace/name``), longest wait first. Pods without a group, ``""``, are not kept."""

    __slots__ = ("_by_group", "_group_of")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, None]] = {}
        self._group_of: dict[str, str] = {}

    def add(self, group: str, uid: str) -> None:
        if group:
            self._group_of[uid] = group
            self._by_group.setdefault(group, {})[uid] = None

    def drop(self, uid: str) -> None:
        """The pod waits no longer; one that did not wait changes nothing."""
        group = self._group_of.pop(uid, "")
        if group:
            waiting = self._by_group[group]
            del waiting[uid]
            if not waiting:
                del self._by_group[group]

    def of(self, group: str) -> tuple[str, ...]:
        return tuple(self._by_group.get(group, ()))
