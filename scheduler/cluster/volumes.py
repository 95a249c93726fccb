"""Claims in use by placed pods."""

from __future__ import annotations

from collections import Counter

from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.errors import InvariantViolation


class Volumes:
    """How many placed pods use a claim (``namespace/name``), by their PersistentVolumeClaim volumes."""

    def __init__(self, table: NodeTable, objects: ObjectStore) -> None:
        self._table = table
        self._objects = objects
        self._users: Counter[str] = Counter()
        self.version = 0
        """Grows whenever the users of any claim change."""

    def users(self, claim: str) -> int:
        return self._users.get(claim, 0)

    def add(self, info: PodInfo, row: int) -> None:
        for claim in _claims_of(info):
            self._users[claim] += 1
            self.version += 1

    def remove(self, info: PodInfo, row: int) -> None:
        for claim in _claims_of(info):
            self._users[claim] -= 1
            if not self._users[claim]:
                del self._users[claim]
            self.version += 1

    def check(self) -> None:
        recount = Counter(claim for pods in self._table.pods for info in pods.values() for claim in _claims_of(info))
        if recount != self._users:
            raise InvariantViolation("users of claims differ from a recount")


def _claims_of(info: PodInfo) -> list[str]:
    return [
        f"{info.namespace}/{volume.persistent_volume_claim.claim_name}"
        for volume in info.pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]
