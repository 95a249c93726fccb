"""A preemptor that wants other victims while the removal of its first ones has not been answered.

Its node may be cordoned meanwhile; and the watch may show the deletion of a victim before the answer arrives.
"""

from __future__ import annotations

from typing import Any

from scheduler.messages.commands import DeletePod, PatchPodStatus
from scheduler.messages.stimuli import PodsActivated, WriteFinished
from tests.engine.driver import Cluster


def with_another_choice(tandem: dict[str, Any] | None = None) -> tuple[Cluster, DeletePod]:
    """``high`` was to get the room of low-n, which terminates, and wants that of low-m now; and the deletion of low-n,
    which has not been answered."""
    cluster = Cluster(tandem=tandem)
    cluster.lingering = {"low-n", "low-m"}
    for number, name in enumerate(("n", "m")):
        cluster.node(name, cpu="2")
        cluster.pod(f"low-{name}", cpu="2", node=name, priority=number)
    cluster.pod("high", cpu="2", priority=100)
    cluster.schedule()
    for patch in cluster.writes(PatchPodStatus):
        cluster.succeed(patch)
    deletion = cluster.write(DeletePod, "low-n")
    cluster.take_effect(deletion)
    cluster.watch("low-n")
    cluster.node("n", cpu="2", unschedulable=True)
    for _ in range(3):
        cluster.feed(PodsActivated(["default/high"]))
        cluster.schedule_all()
    for patch in cluster.writes(PatchPodStatus, "high"):
        cluster.succeed(patch)
    cluster.schedule_all()
    assert cluster.nominated("high") == "m"
    assert not cluster.writes(PatchPodStatus, "low-m")
    return cluster, deletion


def answer(cluster: Cluster, deletion: DeletePod) -> None:
    cluster.unanswered.remove(deletion)
    cluster.feed(WriteFinished(deletion.ticket, True, 200))
    cluster.settle()


def test_they_are_removed_when_the_first_removal_has_been_answered() -> None:
    cluster, deletion = with_another_choice()
    answer(cluster, deletion)
    assert cluster.pods["default/low-m"].metadata.deletion_timestamp is not None
    cluster.delete("low-m")
    cluster.settle()
    assert cluster.pods["default/high"].node_name == "m"


def test_a_choice_that_is_not_carried_out_yet_is_no_preemption_in_vain() -> None:
    cluster, deletion = with_another_choice({"preemption": {"breaker": {"rounds": 2, "window": "10m"}}})
    answer(cluster, deletion)
    assert cluster.nominated("high") == "m"
    assert cluster.pods["default/low-m"].metadata.deletion_timestamp is not None
