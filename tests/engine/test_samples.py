"""Where the search for nodes is a sample: which nodes count as looked at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.sampling import take_sample
from tests.engine.driver import Cluster


@pytest.mark.parametrize(("nominated", "counted"), [("", 101), ("n120", 102), ("n3", 101), ("gone", 101)])
def test_a_nominated_node_that_was_refused_counts_once_among_the_nodes_that_a_sample_has_looked_at(
    nominated: str, counted: int
) -> None:
    """So the next sample begins one place further on, unless it was met again on the way."""
    cluster = Cluster(profile={"percentageOfNodesToScore": 10})
    for number in range(150):
        cluster.node(f"n{number}", cpu="1" if number in (3, 120) else "4")
    cluster.pod("a", cpu="2", nominated=nominated)
    attempt = cluster.schedule()
    assert attempt is not None
    assert (attempt.feasible_nodes, attempt.evaluated_nodes) == (100, counted)


@given(data=st.data())
def test_a_sample_is_what_a_walk_from_node_to_node_finds(data: st.DataObject) -> None:
    candidates = data.draw(st.permutations(range(data.draw(st.integers(0, 12)))))
    feasible = sorted(data.draw(st.sets(st.sampled_from(candidates)))) if candidates else []
    start, wanted = data.draw(st.integers(0, 30)), data.draw(st.integers(0, 13))
    refused_first = data.draw(st.integers(-1, 13))

    found: list[int] = []
    refused: set[int] = set()
    seen = 0
    for step in range(len(candidates)):
        row = candidates[(start + step) % len(candidates)]
        if row in feasible and len(found) == wanted:
            break
        seen += 1
        if row in feasible:
            found.append(row)
        else:
            refused.add(row)
    seen += refused_first >= 0 and refused_first not in refused
    if len(feasible) <= wanted:
        found.sort()

    rows = [np.array(each, dtype=np.int64) for each in (candidates, feasible)]
    sample, looked_at = take_sample(rows[0], rows[1], start, wanted, refused_first)
    assert (sample.tolist(), looked_at) == (found, seen)
