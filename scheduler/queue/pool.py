"""The unschedulable pool: rejected pods that wait for an event that may help, and gated pods.

Most events help no waiting pod, and there are thousands of them a second. So pods are indexed by their rejectors, and
those that every hint treats alike (``pod_template.py``) form one group, for which each hint is called once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, KeysView

from scheduler.cluster.pod_info import PodInfo
from scheduler.errors import InvariantViolation
from scheduler.queue.pool_group import GroupKey, PoolGroup
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.rejector_index import RejectorIndex

ClassKey = Callable[[PodInfo], Hashable | None]
"""Equal keys promise equal answers of all hints; None: like no other pod."""

_NO_PLUGINS: dict[str, RejectorIndex] = {}


class UnschedulablePool:
    """Keyed by ``namespace/name``. A record in the pool may be changed only between ``remove`` and ``put``."""

    __slots__ = ("_by_rejector", "_class_key", "_gated", "_group_of", "_groups", "_records")

    def __init__(self, class_key: ClassKey) -> None:
        self._class_key = class_key
        self._records: dict[str, QueuedPod] = {}
        self._group_of: dict[str, PoolGroup] = {}
        self._groups: dict[GroupKey, PoolGroup] = {}
        self._by_rejector: dict[str, dict[str, RejectorIndex]] = {}
        self._gated = 0

    def put(self, record: QueuedPod) -> None:
        """Add a record to the pool, and to the group of pods like it."""
        key = self._group_key(record)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = PoolGroup(key, record)
            by_plugin = self._by_rejector.setdefault(record.profile, {})
            for plugin in record.rejectors:
                index = by_plugin.get(plugin)
                if index is None:
                    index = by_plugin[plugin] = RejectorIndex()
                index.add(group)
        group.members[record.uid] = record
        self._group_of[record.key] = group
        self._records[record.key] = record
        self._gated += record.is_gated

    def waits(self, record: QueuedPod) -> bool:
        """Whether this very record is here and waits for an event, not for a gate."""
        return self._records.get(record.key) is record and not record.is_gated

    def remove(self, key: str) -> QueuedPod | None:
        """Remove and return the record of this ``namespace/name``; None if it is not here."""
        record = self._records.pop(key, None)
        if record is None:
            return None
        group = self._group_of.pop(key)
        del group.members[record.uid]
        self._gated -= group.gating_plugin != ""
        if not group.members:
            self._drop(group)
        return record

    def replace_pod(self, record: QueuedPod, info: PodInfo) -> None:
        """Replaces a pod of the pool by a newer version."""
        self.remove(record.key)
        record.replace_pod(info)
        self.put(record)

    def get(self, key: str) -> QueuedPod | None:
        return self._records.get(key)

    def rejected_by(self, profile: str, plugin: str) -> RejectorIndex | None:
        """The groups whose rejectors include this plugin; None if there are none."""
        return self._by_rejector.get(profile, _NO_PLUGINS).get(plugin)

    @property
    def groups(self) -> list[PoolGroup]:
        return list(self._groups.values())

    @property
    def profiles(self) -> KeysView[str]:
        """The profiles of the pods in the pool."""
        return self._by_rejector.keys()

    @property
    def gated_count(self) -> int:
        return self._gated

    @property
    def unschedulable_count(self) -> int:
        return len(self._records) - self._gated

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterates in order of insertion."""
        return iter(self._records.values())

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def __len__(self) -> int:
        return len(self._records)

    def check(self) -> None:
        """Raises InvariantViolation unless every pod is in the group of its record, and the index finds it there."""
        for key, record in self._records.items():
            group = self._group_of.get(key)
            if group is None or group.members.get(record.uid) is not record or self._group_key(record) != group.key:
                raise InvariantViolation(f"pod {key} is in the wrong group of the pool")
            by_plugin = self._by_rejector.get(record.profile, {})
            if any(plugin not in by_plugin for plugin in record.rejectors) or any(
                by_plugin[plugin].groups.get(group.key) is not group for plugin in record.rejectors
            ):
                raise InvariantViolation(f"pod {key} is not found by its rejectors")
        if sum(len(group.members) for group in self._groups.values()) != len(self._records):
            raise InvariantViolation("groups of the pool hold pods that the pool does not")
        if self._gated != sum(record.is_gated for record in self._records.values()):
            raise InvariantViolation("the count of gated pods is wrong")
        for plugins in self._by_rejector.values():
            if any(not index.groups or not index.groups.keys() <= self._groups.keys() for index in plugins.values()):
                raise InvariantViolation("the pool's index holds groups that are gone")

    def _group_key(self, record: QueuedPod) -> GroupKey:
        return (
            record.profile,
            record.unschedulable_plugins,
            record.pending_plugins,
            record.gating_plugin,
            record.class_by(self._class_key),
        )

    def _drop(self, group: PoolGroup) -> None:
        del self._groups[group.key]
        by_plugin = self._by_rejector[group.profile]
        for plugin in group.rejectors:
            index = by_plugin[plugin]
            index.discard(group)
            if not index.groups:
                del by_plugin[plugin]
        if not by_plugin:
            del self._by_rejector[group.profile]
