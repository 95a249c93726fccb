"""The volumes of pods that are on no row, such as nominated ones."""

from __future__ import annotations

from itertools import count
from typing import Final

from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import encoded_bytes
from scheduler.cluster.volumes.csi import Attachable, attached_volumes, claim_key

_MAX_BYTES: Final = 32 * 2**20
"""Of the pods whose volumes are remembered, which are kept alive by that, as JSON: 20 of the largest, or thousands."""

_new_version = count(1).__next__
"""One sequence for all instances: an answer cached by version is not taken for that of a fork."""


class UnplacedVolumes:
    """The volumes of each pod asked about, remembered until a claim of the pod, its volume or a class changes.

    The ``mark`` methods must be called for every such change, after the store.
    """

    __slots__ = ("_bytes", "_doubtful", "_known", "_objects", "_pods_of_claim", "_version")

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._known: dict[str, tuple[PodInfo, tuple[Attachable, ...]]] = {}
        """UID → the pod that was asked about, and its volumes."""
        self._pods_of_claim: dict[str, set[str]] = {}
        """Key of a claim → UIDs of those pods that name it, be it missing or not."""
        self._doubtful: set[str] = set()
        """UIDs of those with a marked claim."""
        self._bytes = 0
        """The size of those pods."""
        self._version = _new_version()

    def of(self, info: PodInfo) -> tuple[Attachable, ...]:
        """The volumes that a driver attaches for the pod, each once."""
        self._settle()
        known = self._known.get(info.uid)
        if known is not None and known[0] is info:
            return known[1]
        self._bytes += encoded_bytes(info)
        if self._bytes > _MAX_BYTES:
            # What is forgotten may change unnoticed, so all answers count as changed.
            self.mark_everything()
            self._bytes = encoded_bytes(info)
        for volume in info.pod.spec.volumes:
            claim = claim_key(info, volume)
            if claim is not None:
                self._pods_of_claim.setdefault(claim, set()).add(info.uid)
        return self._find(info)

    @property
    def version(self) -> int:
        """A number that no instance had before, whenever an answer of ``of`` that was given has become another one."""
        self._settle()
        return self._version

    def mark_claim(self, key: str) -> None:
        """Note that a claim, or its volume, was added, changed or removed."""
        self._doubtful |= self._pods_of_claim.get(key, set())

    def mark_everything(self) -> None:
        """Note that anything may have changed."""
        self._known.clear()
        self._pods_of_claim.clear()
        self._doubtful.clear()
        self._bytes = 0
        self._version = _new_version()

    def _settle(self) -> None:
        while self._doubtful:
            info, before = self._known[self._doubtful.pop()]
            if self._find(info) != before:
                self._version = _new_version()

    def _find(self, info: PodInfo) -> tuple[Attachable, ...]:
        found = tuple(dict.fromkeys(attached_volumes(info, self._objects)))
        self._known[info.uid] = info, found
        return found
