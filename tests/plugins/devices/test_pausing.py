"""A search that pauses finds what it finds without pauses, after the same steps."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.view import View
from scheduler.objects.steps import Pace, run_to_end
from scheduler.plugins.devices.one_node import Asked, find
from scheduler.plugins.devices.outcomes import outcomes
from scheduler.plugins.devices.situation import Situation, situation_of
from tests.plugins.devices.allocations import asked_of
from tests.plugins.devices.test_dynamic_resources import claiming
from tests.plugins.devices.test_running_out_of_time import hard
from tests.plugins.devices.test_search import CASES

NO_PAUSE = 10**9


def found(asked: Asked | str, view: View, max_steps: int, steps_a_slice: int) -> tuple[Any, int]:
    """What the search finds, and how often it has paused."""
    pace = Pace(steps_a_slice)
    return run_to_end(find(asked, view, 0, max_steps, pace)), pace.slices


@given(st.sampled_from(CASES), st.sampled_from([0, 1, 5, 20, 100]), st.integers(1, 12))
def test_a_search_in_slices_finds_the_same(case: dict[str, Any], max_steps: int, steps_a_slice: int) -> None:
    cache, _, asked = asked_of(case)
    whole, pauses = found(asked, cache.view, max_steps, NO_PAUSE)
    assert pauses == 0
    assert found(asked, cache.view, max_steps, steps_a_slice)[0] == whole


def test_most_searches_pause_where_a_slice_is_one_step() -> None:
    pauses = [found(asked, cache.view, 0, 1)[1] for cache, _, asked in map(asked_of, CASES[:50])]
    assert sum(count > 2 for count in pauses) > 40


def test_a_search_that_runs_out_of_time_pauses_all_along() -> None:
    cache = hard(3)
    situation = situation_of(claiming("one"), cache.view)
    assert isinstance(situation, Situation)
    asked = Asked(situation.waiting, None)
    whole, _ = found(asked, cache.view, 2_000, NO_PAUSE)
    in_slices, pauses = found(asked, cache.view, 2_000, 100)
    assert in_slices == whole
    assert 18 <= pauses <= 25


@given(st.integers(1, 200), st.integers(1, 90))
def test_all_nodes_say_the_same_with_pauses_between_and_within_nodes(steps_a_slice: int, nodes: int) -> None:
    answers = []
    for size in (NO_PAUSE, steps_a_slice):
        cache = hard(nodes)
        situation = situation_of(claiming("one"), cache.view)
        assert isinstance(situation, Situation)
        numbers, said = run_to_end(outcomes(situation, claiming("one"), cache.view, cache.view.rows, 500, Pace(size)))
        answers.append([said[number] for number in numbers.tolist()])
    assert answers[0] == answers[1]
