"""The status of a PodGroup of scheduler-plugins, as that project's controller keeps it (podgroups.md §12).

    "" → Pending → Scheduling → Running → Finished | Failed

A group is Pending while it has fewer pods than its quorum, Running once as many run or have succeeded, and Failed once
as many have begun and one of them has failed. The last two phases are final.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.objects.coscheduling import PodGroup, PodGroupStatus
from scheduler.objects.pod import Pod
from scheduler.objects.timestamps import NANOS_IN_SECOND, parse_time

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"
FINAL: Final = (FINISHED, FAILED)
OVERDUE_SECONDS: Final = 48 * 3600
OVERDUE: Final = "schedule time longer than 48 hours"
"""The text of the event about a group that took longer than OVERDUE_SECONDS to have its pods."""


class PodsSeen(msgspec.Struct, frozen=True):
    """The pods of a group, those that are over included."""

    count: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    owners: str = ""
    """The owners of the oldest pod: ``namespace/name`` of each, with commas between them."""


def seen(pods: Iterable[Pod]) -> PodsSeen:
    found = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name))
    phases = [pod.status.phase for pod in found]
    owners = ""
    if found:
        oldest = found[0]
        owners = ",".join(sorted(f"{oldest.namespace}/{owner.name}" for owner in oldest.metadata.owner_references))
    return PodsSeen(len(found), phases.count("Running"), phases.count("Succeeded"), phases.count("Failed"), owners)


def kept_status(group: PodGroup, pods: PodsSeen, now: str) -> PodGroupStatus:
    """The status that the group should have. ``now``: RFC 3339."""
    known = group.status
    if known.phase in FINAL:
        return known
    quorum = max(1, group.spec.min_member)
    phase = _phase(quorum, pods)
    occupied, start = known.occupied_by, known.schedule_start_time
    if phase != PENDING:
        occupied, start = occupied or pods.owners, start or now
    return PodGroupStatus(phase, occupied, pods.running, pods.succeeded, pods.failed, start)


def _phase(quorum: int, pods: PodsSeen) -> str:
    if pods.count < quorum:
        return PENDING
    if pods.succeeded >= quorum:
        return FINISHED
    if pods.failed and pods.failed + pods.running + pods.succeeded >= quorum:
        return FAILED
    return RUNNING if pods.running + pods.succeeded >= quorum else SCHEDULING


def is_overdue(group: PodGroup) -> bool:
    """Whether it took too long until the group had its pods, and none of them runs yet."""
    status, created = group.status, group.metadata.creation_timestamp
    if status.phase not in (PENDING, SCHEDULING) or status.running or not (status.schedule_start_time and created):
        return False
    try:
        took = parse_time(status.schedule_start_time) - parse_time(created)
    except ValueError:
        return False
    return took > OVERDUE_SECONDS * NANOS_IN_SECOND


def changes_to(known: PodGroupStatus, wanted: PodGroupStatus) -> dict[str, object]:
    """A JSON merge patch of the status; empty if nothing changes. A number of 0 and an empty text are left out of the
    status, as the API has them."""
    before, after = msgspec.to_builtins(known), msgspec.to_builtins(wanted)
    return {name: after.get(name) for name in before | after if before.get(name) != after.get(name)}
