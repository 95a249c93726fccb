"""Keys change which hints are called, never which groups an event wakes, nor in which order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.events import HintKeys
from scheduler.queue.pool_group import PoolGroup
from scheduler.queue.rejector_index import RejectorIndex
from tests.queue.fakes import Bench

_SET = st.frozensets(st.sampled_from("abcd"), min_size=1, max_size=2)
_CONDITION = st.lists(_SET, min_size=1, max_size=2).map(tuple)
_WANTED = st.lists(_CONDITION, max_size=2).map(tuple) | st.none()
_STEP = st.tuples(st.just("come"), _WANTED) | st.tuples(st.just("go"), st.integers(0, 99))
_EVENT = st.tuples(st.just("event"), st.frozensets(st.sampled_from("abcd"), max_size=2) | st.none())


def _holds(wanted: Any, offered: Any) -> bool:
    """A hint that the keys describe exactly, but for events that don't say what they offer."""
    if wanted is None or offered is None:
        return True
    return any(all(not keys.isdisjoint(offered) for keys in condition) for condition in wanted)


class _Indices:
    """Two indices with the same groups, of which one is asked by keys."""

    def __init__(self) -> None:
        self.wanted: dict[str, Any] = {}
        self.keys = HintKeys(lambda pod: self.wanted[pod.name], lambda event: event[0])
        self.with_keys, self.without = RejectorIndex(), RejectorIndex()
        self.groups: list[PoolGroup] = []
        self._bench = Bench()

    def come(self, wanted: Any) -> None:
        name = f"p{len(self.wanted)}"
        self._bench.add(name)
        record = self._bench.pop()
        self.wanted[name] = wanted
        group = PoolGroup((record.profile, frozenset(), frozenset(), "", name), record)
        group.members[record.uid] = record
        self.groups.append(group)
        self.with_keys.add(group)
        self.without.add(group)

    def go(self, number: int) -> None:
        if self.groups:
            group = self.groups.pop(number % len(self.groups))
            group.members.clear()
            self.with_keys.discard(group)
            self.without.discard(group)

    def event(self, offered: Any) -> None:
        def would_wake(group: PoolGroup) -> bool:
            return _holds(self.wanted[group.representative.info.name], offered)

        by_keys = _finished(self.with_keys.woken_by(offered, would_wake, self.keys, (None, (offered,))))
        assert by_keys == _finished(self.without.woken_by(offered, would_wake))
        assert by_keys == [group for group in self.groups if would_wake(group)]


def _finished(search: Any) -> list[PoolGroup]:
    while True:
        try:
            next(search)
        except StopIteration as end:
            return list(end.value)


@settings(max_examples=150, deadline=None)
@given(st.lists(_STEP | _EVENT, max_size=120))
def test_an_index_asked_by_keys_answers_as_one_that_asks_every_group(steps: list[tuple[str, Any]]) -> None:
    indices = _Indices()
    for what, value in steps:
        getattr(indices, what)(value)
