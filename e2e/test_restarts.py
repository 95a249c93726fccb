"""Promise: the scheduler may stop, crash or lose its API server at any moment; nothing is lost or bound twice."""

from __future__ import annotations

import signal

import pytest

from e2e import builders
from e2e.exactly_once import check_nothing_was_lost_or_doubled
from e2e.provider import Cluster
from e2e.room import Room, placements
from e2e.subject import Scheduler

NODES, PODS_PER_NODE, PODS = 20, 40, 600


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_a_stop_in_the_middle_loses_nothing_and_binds_nothing_twice(
    room: Room, subject: Scheduler, cluster: Cluster, how: signal.Signals
) -> None:
    subject.start().wait_ready()
    room.add_nodes(*(builders.node(f"n{i}", cpu=str(PODS_PER_NODE)) for i in range(NODES)))
    creation = room.add_pods_meanwhile(*(builders.pod(f"p{i}", room.name, cpu="1") for i in range(PODS)))
    room.wait_bound(PODS // 6)
    if how is signal.SIGKILL:
        subject.kill()
    else:
        subject.stop()
    assert room.pods.holds_for(lambda state: len(placements(state)) < PODS, 0.5), "too late to be in the middle"
    creation.result(60)
    subject.start().wait_ready()
    check_nothing_was_lost_or_doubled(room, cluster, pods=PODS, pods_per_node=PODS_PER_NODE, seconds=60)


def test_after_an_outage_of_the_api_server_work_goes_on(room: Room, scheduler: Scheduler, cluster: Cluster) -> None:
    if cluster.controlplane is None:
        pytest.skip("the API server of a shared cluster is not ours to stop")
    room.add_nodes(builders.node("a"), builders.node("b"))
    room.add_pods(builders.pod("before", room.name))
    room.wait_bound(1)
    cluster.controlplane.restart_apiserver()
    room.add_pods(builders.pod("after", room.name))
    assert room.wait_bound(2, 60).keys() == {"before", "after"}
    assert scheduler.process.alive


@pytest.mark.tandem_only
def test_sigterm_ends_it_in_peace(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", pods=10))
    room.add_pods(*(builders.pod(f"p{i}", room.name) for i in range(12)))
    room.wait_bound(10)
    assert scheduler.stop() == 0
    assert "Traceback" not in scheduler.log()
