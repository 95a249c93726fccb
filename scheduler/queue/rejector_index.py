"""Caches which pool groups each cluster event can wake.

With a hundred classes of pods waiting, calling a hint for each of them for every pod that another scheduler starts
would cost more than scheduling itself. But such events have equal facets (``EventRegistration.facet``), and few groups
are added or removed between two of them. So an answer is cached with the number of groups that it covers: the next
event with the same facets calls the hint only for the groups added since.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable

from scheduler.queue.pool_group import PoolGroup

MAX_ANSWERS = 2_048
"""Answers cached for one plugin of one profile; one more clears the cache."""


class _Answer:
    __slots__ = ("groups", "seen")

    def __init__(self) -> None:
        self.groups: list[PoolGroup] = []
        self.seen = 0
        """The number of the index's arrivals that the answer covers."""


class RejectorIndex:
    """The pool's groups whose rejectors include one plugin of one profile."""

    __slots__ = ("_answers", "_arrivals", "_groups")

    def __init__(self) -> None:
        self._groups: dict[Hashable, PoolGroup] = {}
        self._arrivals: list[PoolGroup] = []
        """Groups in order of arrival; removed ones stay until they outnumber the others."""
        self._answers: dict[Hashable, _Answer] = {}

    def add(self, group: PoolGroup) -> None:
        self._groups[group.key] = group
        self._arrivals.append(group)

    def discard(self, group: PoolGroup) -> None:
        """Removes a group that has lost its last member; it is never added again."""
        del self._groups[group.key]
        if len(self._arrivals) > 2 * len(self._groups) + 32:
            self._arrivals = list(self._groups.values())
            self._answers.clear()

    @property
    def groups(self) -> dict[Hashable, PoolGroup]:
        return self._groups

    def woken_by(
        self, key: Hashable, would_wake: Callable[[PoolGroup], bool]
    ) -> Generator[None, None, list[PoolGroup]]:
        """The groups that events with this key wake, in order of arrival. Calls ``would_wake`` for uncached groups, and
        yields after each; no group may come or go before the end."""
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            answer = self._answers[key] = _Answer()
        if answer.seen < len(self._arrivals):
            woken = []
            for group in self._arrivals[answer.seen :]:
                if group.members and would_wake(group):
                    woken.append(group)
                yield
            answer.seen = len(self._arrivals)
            answer.groups += woken
        if answer.groups:
            answer.groups = [group for group in answer.groups if group.members]
        return answer.groups
