"""Plugins' errors while a group is tried."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.per_node import NodeView, PerNodeFilter
from scheduler.framework.plugin import State
from scheduler.messages.status import Refusal, failure
from scheduler.objects.node import Node
from tests.engine.test_group_preemption import full_cluster, victims


class NeverFirst(PerNodeFilter):
    """Can't tell of empty nodes."""

    name = "NeverFirst"

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        return None if node_view.pods else failure("nothing there")


def test_an_error_while_victims_are_sought_is_an_error_of_the_group_and_costs_no_pod() -> None:
    cluster = full_cluster(nodes=1, pods=1, plugins=(NeverFirst,))
    cluster.group(min_count=2, priority=10)
    cluster.members(2, cpu="1", priority=10)
    cluster.schedule_all()
    assert victims(cluster) == set()
    text = 'failed to schedule other pod from a pod group: running "NeverFirst" filter plugin: nothing there'
    assert cluster.conditions() == [("False", "SchedulerError", text)]
    assert [cluster.reason_of(name) for name in ("g0", "g1")] == [("SchedulerError", text)] * 2
    assert [cluster.place(name) for name in ("g0", "g1")] == ["error backoff"] * 2
