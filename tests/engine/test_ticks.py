"""A Tick in which the handling of one deadline raises: what the others lead to is done all the same."""

from __future__ import annotations

from typing import ClassVar

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import PreBindPlugin, PreFlight, State
from scheduler.messages.commands import BindPod, ReportProblem, UpdateObject
from scheduler.messages.status import Refusal
from scheduler.objects.kinds import Kind
from tests.engine.driver import Cluster


class Undecided:
    """Neither yes nor no."""

    def __bool__(self) -> bool:
        raise Writes.error("who knows")


class Writes(PreBindPlugin):
    """Writes something about each pod before its bind, and is asked every second whether that has had its effect."""

    name = "Writes"
    broken: ClassVar[str] = ""
    error: ClassVar[type[BaseException]] = RuntimeError
    is_ready: ClassVar[bool] = False

    def pre_bind_pre_flight(self, state: State | None, pod: PodInfo, view: View, node: str) -> PreFlight:
        write = UpdateObject(0, Kind.PERSISTENT_VOLUME_CLAIM, pod.key, {})
        return PreFlight(writes=(write,), wait_seconds=600.0)

    def pre_bind_progress(self, state: State | None, pod: PodInfo, view: View, node: str) -> bool | Refusal:
        if pod.name == self.broken:
            return Undecided()  # type: ignore[return-value]  # breaks its contract
        return self.is_ready


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
@pytest.mark.parametrize("broken", ["a", "b", "c"])
def test_the_other_pods_of_the_tick_are_bound_and_the_one_that_broke_it_is_tried_again(
    broken: str, error: type[BaseException]
) -> None:
    Writes.broken, Writes.is_ready, Writes.error = "", False, error
    cluster = Cluster(Writes)
    cluster.tolerates_errors = True
    cluster.node("n", cpu="4")
    for name in ("a", "b", "c"):
        cluster.pod(name, cpu="1")
        cluster.schedule()
    for write in cluster.writes(UpdateObject):
        cluster.succeed(write)
    Writes.broken, Writes.is_ready = broken, True
    cluster.advance(1)
    assert {bind.pod.name for bind in cluster.writes(BindPod)} == {"a", "b", "c"} - {broken}
    (problem,) = [each for each in cluster.sent if isinstance(each, ReportProblem)]
    assert isinstance(problem.error, error) and "who knows" in problem.message
    assert cluster.said(broken) == [f"{error.__name__}: who knows"]
    assert (cluster.place(broken), cluster.node_of(broken)) == ("error backoff", "")
    Writes.broken = ""
    cluster.settle()
    cluster.advance(60)
    cluster.settle()
    assert cluster.node_of(broken) == "n"
