"""Reports attempts at groups: the group's condition, and the memory of the last attempt of each group."""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

from scheduler.cluster.groups.group import Group
from scheduler.engine.commands import Command, RecordGroupAttempt
from scheduler.engine.failure import REASON_ERROR, REASON_UNSCHEDULABLE, UNSEEN_SECONDS
from scheduler.engine.group_attempt import GroupAttempt, GroupResult
from scheduler.engine.machine import Claims, Part
from scheduler.messages.commands import PatchGroupStatus
from scheduler.messages.now import Now
from scheduler.objects.meta import Condition
from scheduler.objects.timestamps import format_seconds

POD_GROUP_SCHEDULED = "PodGroupScheduled"
REASON_SCHEDULED = "Scheduled"


class RememberedGroup(Struct, frozen=True):
    """``since_wall``: nanoseconds since 1970, when the group was first tried with the present result."""

    attempt: GroupAttempt
    since_wall: int
    attempts: int


class _Written(Struct, frozen=True):
    uid: str
    said: tuple[str, str, str]
    at: float


class GroupReports:
    """``max_groups``: of how many groups the last attempt is remembered; the oldest go first."""

    CLAIMS = Claims(writes=frozenset({Part.GROUP_REPORTS}))

    def __init__(self, max_groups: int) -> None:
        self._max_groups = max_groups
        self._last: OrderedDict[str, RememberedGroup] = OrderedDict()
        self._written: OrderedDict[str, _Written] = OrderedDict()
        """Conditions that the watch has not shown yet."""

    def of(self, key: str) -> RememberedGroup | None:
        """The last attempt at the group of this ``namespace/name``."""
        return self._last.get(key)

    @property
    def remembered(self) -> tuple[RememberedGroup, ...]:
        """All groups that are remembered, those whose last attempt is the oldest first."""
        return tuple(self._last.values())

    def forget(self, key: str) -> None:
        """The group is gone."""
        self._last.pop(key, None)
        self._written.pop(key, None)

    def attempt_ended(self, attempt: GroupAttempt, group: Group | None, now: Now) -> list[Command]:
        """Record the attempt, and write the condition if it says something else than before. ``group`` None: there is
        no object to write it to."""
        known = self._last.pop(attempt.group, None)
        since = attempt.started_wall
        if known is not None and known.attempt.result is attempt.result:
            since = known.since_wall
        self._last[attempt.group] = RememberedGroup(attempt, since, 1 if known is None else known.attempts + 1)
        if len(self._last) > self._max_groups:
            self._last.popitem(last=False)
        commands: list[Command] = [RecordGroupAttempt(attempt)]
        if group is not None and group.reports_condition and attempt.has_members:
            commands += self._condition(attempt, group, now)
        return commands

    def _condition(self, attempt: GroupAttempt, group: Group, now: Now) -> list[Command]:
        """Never from True to False: a group that was scheduled once stays so (podgroups.md §6.3)."""
        status, reason = "False", REASON_UNSCHEDULABLE
        if attempt.result is GroupResult.SCHEDULED:
            status, reason = "True", REASON_SCHEDULED
        elif attempt.result is GroupResult.ERROR:
            reason = REASON_ERROR
        shown = group.scheduled
        known = (shown.status, shown.reason, shown.message) if shown is not None else ("", "", "")
        written = self._written.get(attempt.group)
        if written is not None and written.uid == group.reference.uid and now.monotonic - written.at < UNSEEN_SECONDS:
            known = written.said
        said = (status, reason, attempt.message)
        if said == known or (known[0] == "True" and status == "False"):
            return []
        self._written[attempt.group] = _Written(group.reference.uid, said, now.monotonic)
        self._written.move_to_end(attempt.group)
        if len(self._written) > self._max_groups:
            self._written.popitem(last=False)
        since = shown.last_transition_time if shown is not None and shown.status == status else None
        condition = Condition(
            type=POD_GROUP_SCHEDULED,
            status=status,
            reason=reason,
            message=attempt.message,
            last_transition_time=since or format_seconds(now.wall),
        )
        return [PatchGroupStatus(0, group.reference, condition)]
