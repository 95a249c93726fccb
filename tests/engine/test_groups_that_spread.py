"""Room for a gang whose members spread: not every order in which they take their nodes will do."""

from __future__ import annotations

from scheduler.testing.fragments import spread_json
from tests.engine.gangs import Gangs
from tests.engine.test_group_preemption import HOSTNAME, WHOLE, placed, run_on, victims


def test_a_gang_that_spreads_removes_no_more_pods_than_it_needs() -> None:
    """As the pods come back one by one the members move to nodes that they could not take in their own order."""
    cluster = Gangs(WHOLE)
    for name, cpu in (("n0", "2"), ("n1", "4"), ("n2", "3")):
        cluster.node(name, cpu=cpu, labels={HOSTNAME: name})
    for name, cpu, priority in (("v00", "1", 1), ("v10", "1", 1), ("v20", "1", 3), ("v21", "1", 3), ("v22", "2", 2)):
        cluster.pod(name, cpu=cpu, node=f"n{name[1]}", priority=priority)
    cluster.group(min_count=5, priority=10)
    spread = [spread_json(HOSTNAME, {"app": "g"}, max_skew=2)]
    names = cluster.members(5, cpu="1", priority=20, labels={"app": "g"}, spread=spread)
    run_on(cluster)
    assert victims(cluster) == {"v22"}
    assert all(placed(cluster, *names).values())
