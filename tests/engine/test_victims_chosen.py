"""Which pods and which node a preemption chooses: budgets, numbers, priorities, claims."""

from __future__ import annotations

import pytest

from tests import builders
from tests.engine.driver import Cluster
from tests.engine.preempting import bound, cluster_of, running


def test_a_pod_without_a_budget_dies_before_those_under_one() -> None:
    """Race 31 of preemption with everything else."""
    cluster = cluster_of("3")
    cluster.show(builders.budget("budget", {"app": "kept"}, allowed=0))
    for name in ("kept0", "kept1"):
        cluster.pod(name, cpu="1", priority=1, node="n", labels={"app": "kept"})
    cluster.pod("mid", cpu="1", priority=50, node="n")
    cluster.pod("high", cpu="1", priority=100)
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.victims == ("default/mid",)


def test_a_node_whose_budget_is_exhausted_is_avoided() -> None:
    """Race 32 of preemption with everything else."""
    cluster = Cluster()
    cluster.node("n1", cpu="1")
    cluster.node("n2", cpu="1")
    cluster.show(builders.budget("budget", {"app": "kept"}, allowed=0))
    cluster.pod("low", cpu="1", priority=1, node="n1", labels={"app": "kept"})
    cluster.pod("mid", cpu="1", priority=50, node="n2")
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    assert cluster.nominated("high") == "n2"


def test_violations_count_first_then_the_most_important_victim_then_the_number() -> None:
    """Race 33 of preemption with everything else."""
    cluster = Cluster()
    for name in ("n1", "n2", "n3"):
        cluster.node(name, cpu="3")
    cluster.show(builders.budget("exhausted", {"app": "one"}, allowed=0))
    cluster.show(builders.budget("left", {"app": "others"}, allowed=3))
    cluster.pod("one", cpu="3", priority=1, node="n1", labels={"app": "one"})
    cluster.pod("mid", cpu="3", priority=50, node="n2", labels={"app": "others"})
    running(cluster, 3, node="n3", name="three")
    cluster.pod("high", cpu="3", priority=100)
    cluster.schedule()
    assert cluster.nominated("high") == "n3"


@pytest.mark.parametrize(("owners", "victims"), [((("a",), ()), 1), ((("a",), ("b",)), 2), ((("a", "b"), ()), 1)])
def test_just_the_pods_that_hold_the_claims_die(owners: tuple[tuple[str, ...], ...], victims: int) -> None:
    """Race 34 of preemption with everything else."""
    cluster = cluster_of()
    wanted = sorted({claim for claims in owners for claim in claims})
    for claim in wanted:
        cluster.show(builders.claim(claim, modes=("ReadWriteOncePod",), volume=f"pv-{claim}"))
        cluster.show(builders.volume(f"pv-{claim}", modes=("ReadWriteOncePod",), phase="Bound"))
    for number, claims in enumerate(owners):
        cluster.pod(f"low{number}", cpu="1", priority=1, node="n", claims=claims)
    cluster.pod("high", cpu="1", priority=100, claims=wanted)
    attempt = cluster.schedule()
    assert attempt is not None
    holders = [f"default/low{number}" for number, claims in enumerate(owners) if claims]
    assert sorted(attempt.victims) == holders
    assert len(holders) == victims
    cluster.settle()
    assert bound(cluster, "high") == "n"
