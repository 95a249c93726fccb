from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.priority_counts import PriorityCounts


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), max_size=150))
def test_the_lowest_priority_is_that_of_a_pod_that_is_there(steps: list[tuple[bool, int]]) -> None:
    counts, expected = PriorityCounts(), Counter[int]()
    for comes, priority in steps:
        if comes:
            counts.add(priority)
            expected[priority] += 1
        elif expected[priority]:
            fork = counts.fork()
            counts.remove(priority)
            expected[priority] -= 1
            assert fork.counts[priority] == expected[priority] + 1
        assert counts.lowest == min(+expected, default=None)
        assert counts.counts == +expected
