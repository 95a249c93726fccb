from __future__ import annotations

from collections.abc import Collection

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.events import ClusterEvent, EventRegistration
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.messages.status import Code, Refusal, unresolvable
from scheduler.queue.gates import Gates
from scheduler.queue.known_pods import KnownPods
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing.objects import pod
from tests.queue.fakes import GATES_GONE, NODE_ADD, PROFILE, Bench
from tests.queue.vectors import Removals


def gate(plugin_name: str, asked: list[str], refuses: bool = False, raises: bool = False) -> PreEnqueuePlugin:
    class Gate(PreEnqueuePlugin):
        name = plugin_name

        def held_back(self, context: EnqueueContext) -> Collection[str]:
            if raises:
                raise RuntimeError("broken")
            return {"a"} if refuses else ()

        def pre_enqueue(self, pod: PodInfo, context: EnqueueContext) -> Refusal | None:
            asked.append(plugin_name)
            if raises:
                raise RuntimeError("broken")
            return unresolvable("not yet") if refuses else None

    return Gate()


def ask(*gates: PreEnqueuePlugin, held_by: str = "", scheduler: str = PROFILE) -> tuple[Refusal | None, QueueMetrics]:
    facts = QueueMetrics()
    record = QueuedPod(PodInfo(pod("a", scheduler=scheduler)), 0)
    record.gating_plugin = held_by
    return Gates({PROFILE: gates}, Removals(KnownPods()), facts)(record), facts


def test_the_first_refusal_ends_the_round_and_is_signed() -> None:
    asked: list[str] = []
    refusal, _facts = ask(gate("A", asked), gate("B", asked, refuses=True), gate("C", asked))
    assert refusal is not None and (refusal.plugin, refusal.message) == ("B", "not yet")
    assert asked == ["A", "B"]


def test_the_plugin_that_held_the_pod_back_last_is_asked_first() -> None:
    asked: list[str] = []
    ask(gate("A", asked), gate("B", asked), gate("C", asked), held_by="C")
    assert asked == ["C", "A", "B"]


def test_a_plugin_that_raises_holds_its_pod_back_and_is_reported() -> None:
    refusal, facts = ask(gate("A", [], raises=True))
    assert refusal is not None and (refusal.plugin, refusal.code) == ("A", Code.ERROR)
    assert "PreEnqueue plugin A raised for default/a" in facts.take_problems()[0]


def test_a_gate_plugin_that_raises_as_it_states_its_pods_is_asked_for_each_pod_and_reported() -> None:
    facts = QueueMetrics()
    gates = Gates({PROFILE: [gate("A", [], refuses=True), gate("B", [], raises=True)]}, Removals(KnownPods()), facts)
    assert (set(gates.held_back(PROFILE, "A")), set(gates.held_back(PROFILE, "B"))) == ({"a"}, set())
    assert "PreEnqueue plugin B raised" in facts.take_problems()[0]


def test_a_plugin_that_can_not_say_which_events_matter_has_its_pods_asked_for_and_is_reported() -> None:
    class Broken(PreEnqueuePlugin):
        name = "A"

        def may_release(self, event: ClusterEvent) -> bool:
            raise RuntimeError("broken")

    facts = QueueMetrics()
    gates = Gates({PROFILE: [Broken()]}, Removals(KnownPods()), facts)
    assert gates.may_release(PROFILE, "A", NODE_ADD) and gates.may_release(PROFILE, "unknown", NODE_ADD)
    assert "PreEnqueue plugin A raised in may_release" in facts.take_problems()[0]


def test_a_pod_of_no_profile_passes() -> None:
    refusal, _facts = ask(gate("A", [], refuses=True), scheduler="unknown")
    assert refusal is None


def test_pods_that_the_gate_is_sure_of_are_passed_over_by_events() -> None:
    bench = Bench()
    bench.gated = {"sure", "asked"}
    sure, asked = bench.add("sure"), bench.add("asked")
    bench.held = {sure.uid}
    runs = bench.gate_runs
    bench.move(GATES_GONE, None, asked)
    bench.move(GATES_GONE, None, sure)
    assert bench.gate_runs == runs + 1
    bench.gated, bench.held = set(), set()
    bench.move(GATES_GONE, None, sure)
    assert bench.names() == {"active": ["sure"], "gated": ["asked"]}


def test_events_that_can_not_release_pods_pass_over_them_though_their_plugin_hears_of_them() -> None:
    bench = Bench({"Gate": (EventRegistration(NODE_ADD), EventRegistration(GATES_GONE))})
    bench.gated = {"a"}
    bench.add("a")
    bench.useless_to_the_gate = {NODE_ADD}
    runs = bench.gate_runs
    bench.move(NODE_ADD)
    assert bench.gate_runs == runs
    bench.move(GATES_GONE)
    assert bench.gate_runs == runs + 1
