"""Keeps the status of the PodGroups of scheduler-plugins, in place of that project's controller.

Decisions do without pods that are over, so the pods with the label of such groups are watched once more, all of them.
What changes within ``INTERVAL_SECONDS`` becomes one write of each group, behind all other writes. Only the leader
writes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from scheduler.cluster.groups.coscheduling import LABEL, name_in_coscheduling
from scheduler.cluster.groups.coscheduling_status import OVERDUE, changes_to, is_overdue, kept_status, seen
from scheduler.cluster.groups.group import GroupReference
from scheduler.messages.commands import PatchGroupCounts, WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.coscheduling import PodGroup
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.timestamps import format_seconds

INTERVAL_SECONDS: Final = 1.0
"""The least time between two writes of one group."""
REPEAT_SECONDS: Final = 30.0
"""The time after which all groups are looked at again: a write may have failed."""
SLICE: Final = 100
"""Groups looked at in one turn of the event loop."""
MAX_OVERDUE: Final = 10_000
"""Groups of which it is remembered that they were reported as overdue."""
SELECTOR: Final = {"labelSelector": LABEL}
REPORTER: Final = "PodGroupController"

Submit = Callable[[PatchGroupCounts | WriteEvent], None]


class CoschedulingStatuses:
    """``groups``: the present PodGroups by key. As an intake it takes what the watch of labelled pods shows."""

    def __init__(
        self,
        groups: Callable[[], Mapping[str, ApiObject]],
        submit: Submit,
        is_leading: Callable[[], bool],
        clock: Callable[[], Now],
    ) -> None:
        self._groups = groups
        self._submit = submit
        self._is_leading = is_leading
        self._clock = clock
        self._pods: dict[str, dict[str, Pod]] = {}
        """Group → UID → pod."""
        self._group_of: dict[str, str] = {}
        """UID → group: a label may change."""
        self._changed: dict[str, None] = {}
        """Keys of the groups that have changed, unless all are looked at anyway."""
        self._has_changes = asyncio.Event()
        self._missed_some = True
        """Whether groups have changed that were not looked at, since another scheduler leads."""
        self._overdue: OrderedDict[str, None] = OrderedDict()

    # --- what is seen -------------------------------------------------------------------------------------------------

    def put_all(self, stimuli: Sequence[Stimulus], /) -> None:
        for stimulus in stimuli:
            match stimulus:
                case ObjectObserved(object=Pod() as pod):
                    self._pod_shown(pod)
                case ObjectDeleted(object=Pod() as pod):
                    self._pod_left(pod)

    async def room(self) -> None:
        """Returns at once: a pod is applied when it is put, so nothing waits."""

    def group_changed(self, key: str) -> None:
        if not self._missed_some:
            self._changed[key] = None
        self._has_changes.set()

    def _pod_shown(self, pod: Pod) -> None:
        name = name_in_coscheduling(pod)
        key = f"{pod.namespace}/{name}"
        if self._group_of.get(pod.uid, key) != key:
            self._pod_left(pod)
        if name:
            self._pods.setdefault(key, {})[pod.uid] = pod
            self._group_of[pod.uid] = key
            self.group_changed(key)

    def _pod_left(self, pod: Pod) -> None:
        key = self._group_of.pop(pod.uid, "")
        pods = self._pods.get(key)
        if pods is None:
            return
        pods.pop(pod.uid, None)
        if not pods:
            del self._pods[key]
        self.group_changed(key)

    # --- what is written ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write until cancelled. To be started when the watch has shown all labelled pods."""
        looks_at_all = self._clock().monotonic
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, looks_at_all - self._clock().monotonic)):
                    await self._has_changes.wait()
            # By the clock and not by TimeoutError, which never comes where groups change all the time.
            if self._clock().monotonic >= looks_at_all:
                self._missed_some = True
                looks_at_all = self._clock().monotonic + REPEAT_SECONDS
            self._has_changes.clear()
            keys = list(self._groups() if self._missed_some else self._changed)
            self._changed.clear()
            self._missed_some = not self._is_leading()
            if not self._missed_some:
                for start in range(0, len(keys), SLICE):
                    for key in keys[start : start + SLICE]:
                        self._keep(key)
                    await asyncio.sleep(0)
            await asyncio.sleep(INTERVAL_SECONDS)

    def _keep(self, key: str) -> None:
        group = self._groups().get(key)
        if not isinstance(group, PodGroup) or group.metadata.deletion_timestamp is not None:
            return
        reference = GroupReference(Kind.COSCHEDULING_POD_GROUP, group.namespace, group.name, group.uid)
        pods = seen(self._pods.get(key, {}).values())
        changes = changes_to(group.status, kept_status(group, pods, format_seconds(self._clock().wall)))
        if changes:
            self._submit(PatchGroupCounts(reference, changes))
        if is_overdue(group) and group.uid not in self._overdue:
            self._overdue[group.uid] = None
            if len(self._overdue) > MAX_OVERDUE:
                self._overdue.popitem(last=False)
            self._submit(WriteEvent(reference, "Warning", "Timeout", "Scheduling", OVERDUE, REPORTER))
