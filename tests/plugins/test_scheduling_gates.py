from __future__ import annotations

from typing import Any

from scheduler.framework.events import Hint
from scheduler.messages.status import Code
from scheduler.plugins.scheduling_gates import SchedulingGates
from tests.plugins.clusters import info

NO_CONTEXT: Any = None


def test_a_pod_with_gates_waits_and_the_message_lists_them_in_order() -> None:
    refusal = SchedulingGates().pre_enqueue(info(gates=["b", "a"]), NO_CONTEXT)
    assert refusal is not None
    assert refusal.code is Code.UNRESOLVABLE
    assert refusal.message == "waiting for scheduling gates: [b a]"


def test_a_pod_without_gates_is_let_in() -> None:
    assert SchedulingGates().pre_enqueue(info(), NO_CONTEXT) is None


def test_only_the_pods_own_gates_going_away_wakes_it() -> None:
    (registration,) = SchedulingGates().events()
    pod = info("a", gates=["x"])
    assert registration.hint(pod, pod, info("a")) is Hint.QUEUE
    assert registration.hint(pod, info("b", gates=["x"]), info("b")) is Hint.SKIP
