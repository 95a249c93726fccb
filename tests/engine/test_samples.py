"""Where the search for nodes is a sample: which nodes count as looked at."""

from __future__ import annotations

import pytest

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
