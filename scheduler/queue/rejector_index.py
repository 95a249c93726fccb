"""Whom the events that one plugin hears of would wake, remembered from one event to the next.

With a hundred classes of pods waiting, asking a hint about each of them for every pod that another scheduler starts
would cost more than scheduling itself. But such events look alike (``EventRegistration.facet``), and few groups come
or go between two of them. So an answer is kept with the number of groups it has been worked out for: the next event of
the same look asks about the groups that have come since, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from scheduler.queue.pool_group import PoolGroup

MOST_LOOKS = 2_048
"""Answers kept for one plugin of one profile; beyond it all are forgotten, and worked out again as they are needed."""


class _Answer:
    __slots__ = ("groups", "seen")

    def __init__(self) -> None:
        self.groups: list[PoolGroup] = []
        self.seen = 0
        """How many of the index's arrivals have been asked about."""


class RejectorIndex:
    """The groups of the pool that one plugin of one profile is among the rejectors of."""

    __slots__ = ("_answers", "_arrivals", "_groups")

    def __init__(self) -> None:
        self._groups: dict[Hashable, PoolGroup] = {}
        self._arrivals: list[PoolGroup] = []
        """In the order they came, those that are gone among them until there are too many."""
        self._answers: dict[Hashable, _Answer] = {}

    def add(self, group: PoolGroup) -> None:
        self._groups[group.key] = group
        self._arrivals.append(group)

    def discard(self, group: PoolGroup) -> None:
        """The group has no members any more; it never has again."""
        del self._groups[group.key]
        if len(self._arrivals) > 2 * len(self._groups) + 32:
            self._arrivals = list(self._groups.values())
            self._answers.clear()

    @property
    def groups(self) -> dict[Hashable, PoolGroup]:
        return self._groups

    def woken_by(self, look: Hashable, would_wake: Callable[[PoolGroup], bool]) -> list[PoolGroup]:
        """The groups that events of this look wake, as they came. ``would_wake`` is asked where that is not known."""
        answer = self._answers.get(look)
        if answer is None:
            if len(self._answers) >= MOST_LOOKS:
                self._answers.clear()
            answer = self._answers[look] = _Answer()
        if answer.seen < len(self._arrivals):
            newcomers = self._arrivals[answer.seen :]
            answer.seen = len(self._arrivals)
            answer.groups += [group for group in newcomers if group.members and would_wake(group)]
        if answer.groups:
            answer.groups = [group for group in answer.groups if group.members]
        return answer.groups
