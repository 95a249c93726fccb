"""A preemptor whose victims are gone, with and without SchedulerPopFromBackoffQ."""

from __future__ import annotations

import pytest

from scheduler.messages.commands import BindPod, DeletePod, PatchPodStatus
from tests.engine.driver import Cluster


def preempting(pops_from_backoff: bool) -> Cluster:
    """A pod that has been rejected, and whose only victim terminates."""
    cluster = Cluster(gates=f"SchedulerPopFromBackoffQ={str(pops_from_backoff).lower()}")
    cluster.lingering = {"low"}
    cluster.node("n", cpu="1")
    cluster.pod("low", cpu="1", node="n", priority=1)
    cluster.pod("high", cpu="1", priority=9)
    cluster.schedule()
    cluster.succeed(cluster.write(PatchPodStatus, "high"))
    cluster.succeed(cluster.write(PatchPodStatus, "low"))
    cluster.succeed(cluster.write(DeletePod, "low"))
    assert cluster.nominated("high") == "n"
    return cluster


def test_with_the_gate_on_it_is_tried_the_moment_the_last_victim_is_gone() -> None:
    cluster = preempting(pops_from_backoff=True)
    cluster.delete("low")
    cluster.schedule()
    assert cluster.write(BindPod, "high").node == "n"


def test_with_the_gate_off_its_back_off_is_waited_for_first() -> None:
    cluster = preempting(pops_from_backoff=False)
    cluster.delete("low")
    assert cluster.place("high") == "backoff"
    assert cluster.schedule() is None
    cluster.advance(2.1)
    cluster.schedule()
    assert cluster.write(BindPod, "high").node == "n"


@pytest.mark.parametrize("pops_from_backoff", [False, True])
def test_after_its_back_off_it_is_tried_at_once_with_either(pops_from_backoff: bool) -> None:
    cluster = preempting(pops_from_backoff)
    cluster.advance(5)
    cluster.delete("low")
    cluster.schedule()
    assert cluster.write(BindPod, "high").node == "n"
