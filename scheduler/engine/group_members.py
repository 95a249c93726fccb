"""The members of a group about to be tried: their order, or their outcomes if the group cannot be tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.engine.group_cycle import Member
from scheduler.engine.internal import (
    CycleEnded,
    Step,
)
from scheduler.engine.outcome import NotPlaced
from scheduler.framework.profile import Profile
from scheduler.queue.queued_pod import QueuedPod


def by_urgency(queued: QueuedPod) -> tuple[int, int]:
    """The order of a group's members: by priority, then by when they were first ready to be tried."""
    return -queued.info.priority, queued.initial_attempt or 0


def ends_of_several_profiles(members: Sequence[Member], profiles: Mapping[str, Profile]) -> list[Step]:
    """The members' ends where they do not name one scheduler."""
    first, second = list(profiles)[:2]
    text = f'all pods in a single pod group should have the same .spec.schedulerName set, got: "{second}" and "{first}"'
    return [
        CycleEnded(
            member.queued,
            profiles[member.attempt.scheduler_name],
            member.attempt,
            NotPlaced(text, is_error=True),
        )
        for member in members
    ]
