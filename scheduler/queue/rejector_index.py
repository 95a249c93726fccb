"""Caches which pool groups each cluster event can wake.

With a hundred classes of pods waiting, calling a hint for each of them for every pod that another scheduler starts
would cost more than scheduling itself. But such events have equal facets (``EventRegistration.facet``), and few groups
are added or removed between two of them. So an answer is cached with the number of groups that it covers: the next
event with the same facets calls the hint only for the groups added since. If the hint has keys, it is called only for
those of them that the event's keys lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable

from scheduler.framework.events import HintKeys
from scheduler.queue.filed_groups import FiledGroups
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

    __slots__ = ("_answers", "_arrivals", "_files", "_groups")

    def __init__(self) -> None:
        self._groups: dict[Hashable, PoolGroup] = {}
        self._arrivals: list[PoolGroup] = []
        """Groups in order of arrival; removed ones stay until they outnumber the others."""
        self._answers: dict[Hashable, _Answer] = {}
        self._files: dict[HintKeys, FiledGroups] = {}
        """By the keys of a hint; filed up to the newest group when an event asks."""

    def add(self, group: PoolGroup) -> None:
        self._groups[group.key] = group
        self._arrivals.append(group)

    def discard(self, group: PoolGroup) -> None:
        """Removes a group that has lost its last member; it is never added again."""
        del self._groups[group.key]
        if len(self._arrivals) > 2 * len(self._groups) + 32:
            self._arrivals = list(self._groups.values())
            self._answers.clear()
            self._files.clear()

    @property
    def groups(self) -> dict[Hashable, PoolGroup]:
        return self._groups

    def woken_by(
        self,
        key: Hashable,
        would_wake: Callable[[PoolGroup], bool],
        keys: HintKeys | None = None,
        objects: Iterable[object] = (),
    ) -> Generator[None, None, list[PoolGroup]]:
        """The groups that events with this key wake, in order of arrival. Calls ``would_wake`` for uncached groups, and
        yields after each; no group may come or go before the end. ``objects``: the event's, for the hint's ``keys``."""
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            answer = self._answers[key] = _Answer()
        if answer.seen < len(self._arrivals):
            woken = []
            for position in (yield from self._concerned(answer.seen, keys, objects)):
                group = self._arrivals[position]
                if group.members and would_wake(group):
                    woken.append(group)
                yield
            answer.seen = len(self._arrivals)
            answer.groups += woken
        if answer.groups:
            answer.groups = [group for group in answer.groups if group.members]
        return answer.groups

    def _concerned(
        self, since: int, keys: HintKeys | None, objects: Iterable[object]
    ) -> Generator[None, None, Iterable[int]]:
        """Positions, from ``since`` on, of the groups that the hint has to be called for, ascending."""
        arrivals = self._arrivals
        uncached = range(since, len(arrivals))
        if keys is None:
            return uncached
        filed = self._files.get(keys)
        if filed is None:
            filed = self._files[keys] = FiledGroups(keys)
        for position in range(filed.count, len(arrivals)):
            group = arrivals[position]
            filed.file(position, group.representative.info if group.members else None)
            yield
        concerned = filed.concerned(objects, since)
        return uncached if concerned is None else concerned
