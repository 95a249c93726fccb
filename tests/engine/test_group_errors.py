"""Plugins' errors while a group is tried."""

from __future__ import annotations

from typing import ClassVar

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.per_node import NodeView, PerNodeFilter
from scheduler.framework.plugin import State
from scheduler.messages.status import Refusal, failure
from scheduler.objects.node import Node
from tests.engine.counting import Counting
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


class Counts(State):
    """Fails when it is asked about a pod for the ``fails_at``-th time."""

    __slots__ = ()
    asked: ClassVar[int] = 0
    fails_at: ClassVar[int] = 0

    def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> State:
        return self

    def ignores(self, other: PodInfo) -> bool:
        Counts.asked += 1
        if Counts.asked == Counts.fails_at:
            raise KeyError("team")
        return True


class CountsPods(Counting):
    name = "CountsPods"
    counts = Counts


@pytest.mark.parametrize("fails_at", [1, 2])
def test_an_error_outside_of_a_members_own_cycle_ends_the_attempt_and_keeps_no_other_pod_waiting(fails_at: int) -> None:
    Counts.asked, Counts.fails_at = 0, fails_at
    cluster = full_cluster(nodes=1, pods=2, plugins=(CountsPods,))
    cluster.group(min_count=2, priority=10)
    cluster.members(2, cpu="1", priority=10)
    cluster.schedule_all()
    assert cluster.reason_of("g0") == ("SchedulerError", """running Ignores plugin "CountsPods": KeyError: 'team'""")
    cluster.node("roomy", cpu="8", labels={"kubernetes.io/hostname": "roomy"})
    cluster.pod("single", cpu="1")
    cluster.schedule_all()
    cluster.engine.check()
    assert "single" in cluster.bound()
    cluster.advance(30)
    cluster.schedule_all()
    assert {"g0", "g1"} <= cluster.bound().keys()
