"""Shadow mode: nothing is carried out, and each decision is compared with the pod's real placement."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.controller.beside.shadow import ShadowWriter
from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.inbox import Inbox
from scheduler.controller.parts import Parts
from scheduler.controller.reload import Build
from scheduler.controller.report.instruments import Counter
from scheduler.controller.run import Shell
from scheduler.controller.settings import ShellSettings
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.controller.write.pacing import Rank
from scheduler.errors import ConfigurationError
from scheduler.messages.commands import BindPod, CallExtender, DeletePod, PatchPodStatus
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import ExtenderAnswered, ObjectObserved, Stimulus, WriteFinished
from scheduler.objects.kinds import Kind
from scheduler.testing.objects import pod
from tests.controller.conftest import until
from tests.controller.round_robin_engine import RoundRobinEngine

POD = PodReference("default", "p", "pod-p")


class Stage:
    """A shadow, the pod's node by the watch, and the engine's stimuli."""

    def __init__(self) -> None:
        self.where: str | None = ""
        self.now = 0.0
        self.inbox = Inbox()
        self.extenders = ExtenderCalls(self.inbox.put, AlwaysHeld())
        self._fed: list[Stimulus] = []
        self.counter = Counter("decisions", "", ("agrees",))
        self.shadow = ShadowWriter(
            self.inbox, self.extenders, lambda _: self.where, self.counter, patience_seconds=60.0, clock=self.clock
        )

    def clock(self) -> float:
        return self.now

    @property
    def fed(self) -> list[Stimulus]:
        while (stimulus := self.inbox.take()) is not None:
            self._fed.append(stimulus)
        return self._fed

    def shown(self, node: str | None) -> None:
        """The watch shows the pod's node."""
        self.where = node
        self.shadow.see([ObjectObserved(Kind.POD, pod("p", node=node))])

    def counted(self, agrees: str) -> float:
        return self.counter.child(agrees).value

    @property
    def outcomes(self) -> list[tuple[bool, int]]:
        return [(one.is_done, one.status) for one in self.fed if isinstance(one, WriteFinished)]


async def test_the_same_node_agrees_and_another_one_differs() -> None:
    for node, agrees in (("ours", "true"), ("theirs", "false")):
        stage = Stage()
        stage.shadow.submit(BindPod(1, POD, "ours"))
        stage.shown("")
        assert stage.outcomes == []
        stage.shown(node)
        assert stage.outcomes == [(True, 201)]
        assert stage.counted(agrees) == 1.0
        (comparison,) = stage.shadow.comparisons
        assert (comparison.pod, comparison.agrees, comparison.theirs) == ("default/p", agrees, node)


async def test_a_pod_that_the_other_has_placed_before_we_decided_is_compared_too() -> None:
    stage = Stage()
    stage.where = "ours"
    stage.shadow.submit(BindPod(1, POD, "ours"))
    await until(lambda: stage.outcomes == [(True, 201)])
    assert stage.counted("true") == 1.0


async def test_when_the_pod_is_not_bound_in_time_the_room_is_given_back() -> None:
    stage = Stage()
    stage.shadow.submit(BindPod(1, POD, "ours"))
    stage.now = 59.0
    stage.shadow.sweep()
    assert stage.outcomes == []
    stage.now = 60.0
    stage.shadow.sweep()
    assert stage.outcomes == [(False, 409)]
    assert stage.counted("unknown") == 1.0
    assert stage.shadow.open_writes == 0


async def test_a_pod_that_goes_away_is_not_compared() -> None:
    stage = Stage()
    stage.shadow.submit(BindPod(1, POD, "ours"))
    stage.shown(None)
    assert stage.outcomes == [(False, 409)]
    assert not stage.shadow.comparisons


async def test_a_victim_is_waited_for_and_not_compared() -> None:
    stage = Stage()
    stage.where = "n"
    stage.shadow.submit(DeletePod(1, POD))
    stage.shown("n")
    assert stage.outcomes == []
    stage.shown(None)
    assert stage.outcomes == [(True, 201)]
    assert not stage.shadow.comparisons


async def test_a_victim_of_two_preemptors_answers_both() -> None:
    stage = Stage()
    stage.where = "n"
    stage.shadow.submit(DeletePod(1, POD))
    stage.now = 30.0
    stage.shadow.submit(DeletePod(2, POD))
    assert stage.shadow.open_writes == 2
    stage.now = 60.0
    stage.shadow.sweep()
    assert [(one.ticket, one.is_done) for one in stage.fed if isinstance(one, WriteFinished)] == [(1, False)]
    stage.shown(None)
    assert [(one.ticket, one.is_done) for one in stage.fed if isinstance(one, WriteFinished)] == [(1, False), (2, True)]
    assert stage.shadow.open_writes == 0


async def test_a_newer_decision_on_a_pod_is_the_one_that_is_compared() -> None:
    stage = Stage()
    stage.shadow.submit(BindPod(1, POD, "first"))
    stage.now = 30.0
    stage.shadow.submit(BindPod(2, POD, "second"))
    stage.now = 60.0
    stage.shadow.sweep()
    assert stage.outcomes == []
    stage.shown("second")
    assert [(one.ours, one.agrees) for one in stage.shadow.comparisons] == [("second", "true")]
    assert stage.shadow.open_writes == 0


async def test_status_patches_are_dropped_and_those_that_are_waited_for_count_as_written() -> None:
    stage = Stage()
    stage.shadow.submit(PatchPodStatus(0, POD))
    stage.shadow.submit(PatchPodStatus(7, POD))
    await until(lambda: len(stage.fed) == 1)
    (outcome,) = stage.fed
    assert isinstance(outcome, WriteFinished)
    assert (outcome.ticket, outcome.is_done) == (7, True)


async def test_an_extender_that_would_bind_is_not_called() -> None:
    stage = Stage()
    stage.shadow.submit(CallExtender(3, 0, "bind", "http://nowhere.test/bind", b"{}", 5.0, (POD, "ours")))
    stage.shown("ours")
    (answer,) = stage.fed
    assert isinstance(answer, ExtenderAnswered)
    assert (answer.ticket, answer.error) == (3, "")


async def test_with_too_many_decisions_open_no_further_pod_is_tried() -> None:
    stage = Stage()
    for number in range(10_000):
        assert stage.shadow.has_room_for(1)
        stage.shadow.submit(BindPod(number, PodReference("default", f"p{number}", str(number)), "n"))
    assert not stage.shadow.has_room_for(1)


def refuse(_: bytes) -> Build:
    raise ConfigurationError(())


@pytest.mark.parametrize(("is_shadow", "events"), [(False, 1), (True, 0)])
async def test_a_shadow_writes_no_event_about_a_configuration_that_is_refused(is_shadow: bool, events: int) -> None:
    settings = ShellSettings("host", is_shadow=is_shadow, own_pod=POD)
    shell = Shell(settings, Parts(RoundRobinEngine(), prepare=refuse), {})
    reloader = shell.reloader
    assert reloader is not None
    running = asyncio.create_task(reloader.run())
    reloader.offer(b"nonsense", "a file")
    await until(lambda: not reloader.is_well)
    running.cancel()
    counts = shell.events.counts
    # Without a cluster, the event is given up as soon as it leaves.
    await shell.outbox.settle(5.0, Rank.EVENT)
    assert counts.failed + counts.dropped == events
