"""Answers to the writes about victims that arrive before the watch shows what they did."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.messages.commands import DeletePod, EvictPod, PatchPodStatus
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus, WriteFinished
from scheduler.objects.kinds import Kind
from tests.engine.driver import DELETED_AT, Cluster
from tests.engine.preempting import bound, own_status, running

STRICT = {"preemption": {"pdbPolicy": "strict"}}


class Late:
    """A cluster whose writes are answered at once, while the watch of the victims lags behind until it is shown."""

    def __init__(self, tandem: dict[str, Any] | None = None) -> None:
        self.cluster = Cluster(tandem=tandem)
        self.cluster.node("n", cpu="4")
        running(self.cluster, 4)
        self.cluster.pod("high", cpu="3", priority=100)
        self.cluster.schedule()
        self.unseen: list[tuple[str, Stimulus]] = []
        """The lines of the watch, with the name of each one's pod."""

    def answer_all(self) -> None:
        """All writes about victims are carried out and answered; the watch shows none of it yet."""
        while found := self._about_victims():
            self._answer(found[0])

    def _about_victims(self) -> list[PatchPodStatus | DeletePod | EvictPod]:
        writes: list[PatchPodStatus | DeletePod | EvictPod] = []
        writes += self.cluster.writes(PatchPodStatus)
        writes += self.cluster.writes(DeletePod)
        writes += self.cluster.writes(EvictPod)
        return [each for each in writes if each.pod.name != "high"]

    def _answer(self, command: PatchPodStatus | DeletePod | EvictPod) -> None:
        before = self.cluster.pods[command.pod.key]
        self.cluster.unanswered.remove(command)
        assert self.cluster.take_effect(command)
        after = self.cluster.pods.get(command.pod.key)
        if after is None:
            # What was gone at once has its deletionTimestamp only here.
            metadata = msgspec.structs.replace(before.metadata, deletion_timestamp=DELETED_AT)
            gone = msgspec.structs.replace(before, metadata=metadata)
            self.unseen.append((gone.metadata.name, ObjectDeleted(Kind.POD, gone)))
        else:
            self.unseen.append((after.metadata.name, ObjectObserved(Kind.POD, after)))
        self.cluster.feed(WriteFinished(command.ticket, True, 200))

    def show_all_but_the_last_victim(self) -> None:
        """The watch shows the others to be gone."""
        last, _ = self.unseen[-1]
        while self.unseen[0][0] != last:
            self._show_next()

    def show_all(self) -> None:
        while self.unseen:
            self._show_next()

    def _show_next(self) -> None:
        _, stimulus = self.unseen.pop(0)
        self.cluster.feed(stimulus)


def a_second_node_becomes_full(cluster: Cluster) -> None:
    """With pods that matter less than those on the first."""
    cluster.node("m", cpu="4")
    running(cluster, 4, priority=0, name="least", node="m")


@pytest.mark.parametrize("tandem", [None, STRICT])
def test_a_victim_that_the_watch_has_not_shown_to_leave_is_awaited(tandem: dict[str, Any] | None) -> None:
    late = Late(tandem)
    cluster = late.cluster
    own_status(cluster, "high")
    late.answer_all()
    a_second_node_becomes_full(cluster)
    late.show_all_but_the_last_victim()
    # Whatever wakes the pod now.
    cluster.engine.queue.activate(["default/high"], cluster.now)
    cluster.schedule_all()
    assert cluster.attempt("high").number == 2
    assert cluster.attempt("high").victims == ()
    assert cluster.writes(PatchPodStatus, "least0") == []
    late.show_all()
    cluster.settle()
    assert bound(cluster, "high") == "n"


def test_a_preemptor_is_tried_when_all_of_its_victims_are_gone_and_not_before() -> None:
    late = Late()
    cluster = late.cluster
    own_status(cluster, "high")
    late.answer_all()
    late.show_all_but_the_last_victim()
    cluster.schedule_all()
    assert len(cluster.attempts("high")) == 1
    late.show_all()
    cluster.settle()
    assert bound(cluster, "high") == "n"
    assert len(cluster.attempts("high")) == 2


def test_a_preemptor_that_was_tried_meanwhile_is_tried_at_the_end_of_each_of_its_victims() -> None:
    late = Late()
    cluster = late.cluster
    own_status(cluster, "high")
    late.answer_all()
    # Room for one of its three CPUs: fewer victims are enough.
    cluster.delete("low0")
    cluster.schedule_all()
    assert len(cluster.attempts("high")) == 2
    late.show_all_but_the_last_victim()
    cluster.settle()
    assert bound(cluster, "high") == "n"
