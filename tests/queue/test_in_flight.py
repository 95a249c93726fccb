from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.queue.in_flight import InFlight
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing.objects import pod
from tests.queue.fakes import NODE_ADD, NODE_LABEL


def popped(name: str) -> QueuedPod:
    return QueuedPod(PodInfo(pod(name)), 0)


def labels(in_flight: InFlight, record: QueuedPod) -> list[str] | None:
    kept = in_flight.events_for(record.uid)
    return None if kept is None else [one.event.label for one in kept]


def test_each_attempt_sees_the_events_since_it_began_and_no_others() -> None:
    in_flight = InFlight()
    a, b = popped("a"), popped("b")
    in_flight.begin(a)
    in_flight.append(NODE_ADD, None, None)
    in_flight.begin(b)
    in_flight.append(NODE_LABEL, None, None)
    assert labels(in_flight, a) == ["NodeAdd", "NodeUpdateNodeLabel"]
    assert labels(in_flight, b) == ["NodeUpdateNodeLabel"]
    assert in_flight.lengths() == {"NodeAdd": 1, "NodeUpdateNodeLabel": 1, "PodPopped": 2}


def test_a_pod_that_is_being_tried_does_not_begin_a_second_attempt() -> None:
    in_flight = InFlight()
    a = popped("a")
    assert in_flight.begin(a)
    in_flight.append(NODE_ADD, None, None)
    assert not in_flight.begin(a)
    assert labels(in_flight, a) == ["NodeAdd"]


def test_events_go_when_the_last_attempt_that_needs_them_is_done() -> None:
    in_flight = InFlight()
    a, b = popped("a"), popped("b")
    in_flight.begin(a)
    in_flight.append(NODE_ADD, None, None)
    in_flight.begin(b)
    in_flight.append(NODE_LABEL, None, None)
    assert in_flight.done(a.uid)
    assert in_flight.lengths() == {"NodeUpdateNodeLabel": 1, "PodPopped": 1}
    assert in_flight.done(b.uid)
    assert in_flight.lengths() == {} and in_flight.entries == ()
    in_flight.check()


def test_done_for_an_unknown_pod_does_nothing() -> None:
    in_flight = InFlight()
    in_flight.begin(popped("a"))
    assert not in_flight.done("unknown")
    assert len(in_flight) == 1


def test_nothing_is_kept_while_nothing_is_in_flight() -> None:
    in_flight = InFlight()
    in_flight.append(NODE_ADD, None, None)
    assert in_flight.entries == ()


def test_an_attempt_that_lost_events_to_the_limit_knows_that() -> None:
    in_flight = InFlight(limit=3)
    old, young = popped("old"), popped("young")
    in_flight.begin(old)
    in_flight.append(NODE_ADD, None, None)
    in_flight.begin(young)
    for _ in range(3):
        in_flight.append(NODE_LABEL, None, None)
    assert labels(in_flight, old) is None
    assert labels(in_flight, young) == ["NodeUpdateNodeLabel"] * 3
    in_flight.check()
