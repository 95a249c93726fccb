"""A group of the unschedulable pool: waiting pods that every hint treats alike."""

from __future__ import annotations

from collections.abc import Hashable

from scheduler.queue.queued_pod import QueuedPod

GroupKey = tuple[str, frozenset[str], frozenset[str], str, Hashable]
"""Profile, rejectors, pending plugins, gating plugin, class."""


class PoolGroup:
    """Pods of one profile and class, with the same rejectors, held back by the same plugin (or by none)."""

    __slots__ = ("gating_plugin", "key", "members", "profile", "rejectors")

    def __init__(self, key: GroupKey, record: QueuedPod) -> None:
        self.key = key
        self.profile = record.profile
        self.rejectors = record.rejectors
        self.gating_plugin = record.gating_plugin
        self.members: dict[str, QueuedPod] = {}
        """By UID."""

    @property
    def representative(self) -> QueuedPod:
        """The first pod of the group: a hint's answer for it holds for all, except for events about one of them."""
        return next(iter(self.members.values()))
