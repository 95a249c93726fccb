"""Several deadlines that are due at once, as when the process was stopped for a while."""

from __future__ import annotations

from scheduler.engine.attempt import ERROR
from scheduler.engine.deadlines import BindAgain, Deadlines, PreBindPoll
from scheduler.messages.commands import DeletePod, PatchPodStatus
from scheduler.messages.stimuli import Tick
from tests.engine.driver import Cluster
from tests.engine.test_extenders import extender


def test_an_attempt_that_ends_by_its_own_deadline_takes_the_one_of_its_nomination_with_it() -> None:
    """Both are due: the extender has not answered in time, nor have the victims on the nominated node terminated."""
    silent = extender(filterVerb="filter", httpTimeout="50s")
    cluster = Cluster(configuration={"extenders": [silent]}, tandem={"preemption": {"nominationTimeout": "60s"}})
    cluster.node("a", cpu="1")
    cluster.pod("victim", cpu="1", node="a")
    cluster.lingering.add("victim")
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    cluster.succeed(cluster.write(PatchPodStatus, "victim"))
    cluster.succeed(cluster.write(DeletePod, "victim"))
    cluster.node("b", cpu="1")
    assert cluster.schedule() is None, "it waits for the extender"
    cluster.time += 60.0
    cluster.feed(Tick())
    assert cluster.attempt("high").result == ERROR
    assert cluster.engine.room.suspensions == {}


def test_what_is_left_when_one_fails_is_due_at_the_next_look() -> None:
    deadlines = Deadlines()
    for number in range(3):
        deadlines.set(PreBindPoll(f"uid-{number}"), 1.0)
    for each in deadlines.pop_due(1.0):
        assert each == PreBindPoll("uid-0")
        break
    assert list(deadlines.pop_due(1.0)) == [PreBindPoll("uid-1"), PreBindPoll("uid-2")]


def test_what_is_set_while_others_are_due_is_left_for_the_next_look() -> None:
    deadlines = Deadlines()
    deadlines.set(BindAgain("uid"), 1.0)
    found = []
    for each in deadlines.pop_due(1.0):
        found.append(each)
        deadlines.set(each, 1.0)
    assert found == [BindAgain("uid")]
    assert deadlines.next() == 1.0
