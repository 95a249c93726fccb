"""Random sequences of everything that can happen to the queue, compared after each step with a plain model."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Action, ClusterEvent, Hint, Resource, only_itself
from scheduler.queue.in_flight import KeptEvent
from scheduler.queue.queue_settings import QueueSettings
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing.documents import PodFields
from scheduler.testing.objects import node, pod
from tests.queue.fakes import GATES_GONE, NODE_ADD, POD_DELETE, Bench, on, own_pod
from tests.queue.model import Model, ModelEvent, ModelPod

ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
APPS = ("web", "db")
PLUGINS = st.sets(st.sampled_from(("Fit", "Affinity", "Deaf")))


def _node_is_for(pod_: PodInfo, _old: Any, new: Any) -> Hint:
    return Hint.QUEUE if new.labels.get("for") == pod_.labels.get("app") else Hint.SKIP


def _is_another(pod_: PodInfo, old: PodInfo | None, _new: Any) -> Hint:
    return Hint.QUEUE if old is not None and old.uid != pod_.uid else Hint.SKIP


REGISTRATIONS = {
    "Fit": (on(NODE_ADD, _node_is_for, lambda node_: node_.labels.get("for")), on(POD_DELETE)),
    "Affinity": (on(POD_DELETE, _is_another, only_itself),),
    "Deaf": (),
    "Gate": (on(GATES_GONE, own_pod),),
}


class QueueAndModel(RuleBasedStateMachine):
    """Pods are called p0, p1, ... and each name is used once; time moves by at least 1 ms a step, so nothing ties."""

    steps_a_slice = 0

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(REGISTRATIONS, QueueSettings(steps_a_slice=self.steps_a_slice))
        self.model = Model()
        self.infos: dict[str, PodInfo] = {}

    def names(self, *places: str) -> list[str]:
        return [pod_.name for place in places for pod_ in self.model.at(place)]

    def has(self, *places: str) -> bool:
        return bool(self.names(*places))

    def pass_time(self, milliseconds: int = 1) -> None:
        self.model.advance(milliseconds)
        self.bench.at(self.model.now / 1000)

    @initialize(apps=st.lists(st.sampled_from(APPS), min_size=3, max_size=6), popped=st.integers(0, 3))
    def begin(self, apps: list[str], popped: int) -> None:
        for app in apps:
            self.add(app, 0, False)
        for _ in range(popped):
            self.pop()

    # --- steps --------------------------------------------------------------------------------------------------------

    @rule(app=st.sampled_from(APPS), priority=st.integers(0, 2), is_gated=st.booleans())
    def add(self, app: str, priority: int, is_gated: bool) -> None:
        self.pass_time()
        name = f"p{len(self.infos)}"
        if is_gated:
            self.model.shut.add(name)
            self.bench.gated.add(name)
        self.model.add(name, app, priority)
        self.infos[name] = self.bench.add(name, labels={"app": app}, priority=priority, gates=["g"] * is_gated)

    @precondition(lambda self: self.has("active", "backoff", "errors", "pool", "in flight"))
    @rule(data=st.data(), priority=st.integers(0, 2))
    def update(self, data: st.DataObject, priority: int) -> None:
        """A change that no plugin has registered: it may change a pod's turn, and moves no pod."""
        self.pass_time()
        name = data.draw(st.sampled_from(self.names("active", "backoff", "errors", "pool", "in flight")))
        self.model.pods[name].priority = priority
        old = self.infos[name]
        spec = msgspec.structs.replace(old.pod.spec, priority=priority)
        new = self.infos[name] = PodInfo(msgspec.structs.replace(old.pod, spec=spec))
        self.model.update(name)
        self.bench.known.put(new)
        self.bench.queue.update(old, new, self.bench.now)

    @precondition(lambda self: self.has("active", "backoff", "errors", "pool", "in flight"))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Of a pod in flight the queue takes no notice: its attempt ends by itself."""
        self.pass_time()
        name = data.draw(st.sampled_from(self.names("active", "backoff", "errors", "pool", "in flight")))
        self.model.delete(name)
        self.bench.delete(self.infos[name])

    @rule()
    def pop(self) -> None:
        self.pass_time()
        record = self.bench.queue.pop(self.bench.now)
        assert (record.info.name if record is not None else None) == self.model.pop()

    @precondition(lambda self: self.has("in flight"))
    @rule(data=st.data(), plugins=PLUGINS, pending=PLUGINS)
    def fail(self, data: st.DataObject, plugins: set[str], pending: set[str]) -> None:
        self.pass_time()
        name = data.draw(st.sampled_from(self.names("in flight")))
        record = self.bench.queue.in_flight.get(self.infos[name].uid)
        assert record is not None
        self.model.fail(name, plugins, pending)
        record.replace_pod(self.infos[name])
        self.bench.fail(record, *sorted(plugins), pending=sorted(pending))

    @precondition(lambda self: self.has("in flight", "in flight, deleted"))
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        self.pass_time()
        name = data.draw(st.sampled_from(self.names("in flight", "in flight, deleted")))
        self.model.forget(name)
        self.bench.queue.done(self.infos[name].uid)

    @rule(app=st.sampled_from(APPS))
    def node_appears(self, app: str) -> None:
        self.pass_time()
        self.model.event(ModelEvent("NodeAdd", {"Fit": lambda pod_: pod_.app == app}))
        self.bench.move(NODE_ADD, None, node("n", labels={"for": app}))

    @rule(data=st.data())
    def pod_leaves(self, data: st.DataObject) -> None:
        """A pod that ran is gone; now and then it is one that waits itself (its nomination was lost)."""
        self.pass_time()
        name = data.draw(st.sampled_from(["other", *self.names("pool", "in flight")]))
        gone = self.infos.get(name) or PodInfo(pod("other"))
        every_pod = {"Fit": lambda pod_: True, "Affinity": lambda pod_: pod_.name != name}
        self.model.event(ModelEvent("AssignedPodDelete", every_pod))
        self.bench.move(ASSIGNED_POD_DELETE, gone, None)

    @precondition(lambda self: not self.model.shut.isdisjoint(self.model.pods))
    @rule(data=st.data(), is_noticed=st.booleans())
    def open_gate(self, data: st.DataObject, is_noticed: bool) -> None:
        self.pass_time()
        self.bench.queue.finish_waking()  # as the engine does before anything changes that gates read
        name = data.draw(st.sampled_from(sorted(name for name in self.model.shut if name in self.model.pods)))
        self.bench.gated.discard(name)
        if not is_noticed:
            self.model.shut.discard(name)
            return
        self.model.open_gate(name)
        known = self.infos[name]
        fields: PodFields = {"labels": dict(known.labels), "priority": known.priority}
        self.infos[name] = self.bench.update(PodInfo(pod(name, **(fields | {"gates": ["g"]}))), **fields)

    @precondition(lambda self: self.has("active", "backoff", "errors", "pool", "in flight"))
    @rule(data=st.data())
    def shut_gate(self, data: st.DataObject) -> None:
        """As when victims of a pod begin to be removed: the gate is checked when the pod is queued again."""
        self.bench.queue.finish_waking()
        name = data.draw(st.sampled_from(self.names("active", "backoff", "errors", "pool", "in flight")))
        self.model.shut.add(name)
        self.bench.gated.add(name)

    @precondition(lambda self: self.has("active", "backoff", "errors", "pool", "in flight"))
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        self.pass_time()
        name = data.draw(st.sampled_from(self.names("active", "backoff", "errors", "pool", "in flight")))
        self.model.activate(name)
        self.bench.queue.activate([self.infos[name]], self.bench.now)

    @rule(milliseconds=st.sampled_from((10, 300, 1000, 2500, 31_000, 310_000)))
    def wait(self, milliseconds: int) -> None:
        self.pass_time(milliseconds)

    # --- what must hold -----------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.bench.queue.is_waking)
    @invariant()
    def every_pod_is_where_the_model_has_it(self) -> None:
        found = self.bench.names()
        pool = self.model.at("pool")
        assert found.get("active", []) == self.model.active()
        assert found.get("backoff", []) == self.model.backoff()
        assert sorted(found.get("errors", [])) == sorted(self.names("errors"))
        assert sorted(found.get("pool", [])) == sorted(pod_.name for pod_ in pool if not pod_.gated)
        assert sorted(found.get("gated", [])) == sorted(pod_.name for pod_ in pool if pod_.gated)

    @precondition(lambda self: not self.bench.queue.is_waking)
    @invariant()
    def the_list_of_what_is_in_flight_is_the_models(self) -> None:
        found = [
            entry.info.name if isinstance(entry, QueuedPod) else type(entry)
            for entry in self.bench.queue.in_flight.entries
        ]
        wanted = [entry.name if isinstance(entry, ModelPod) else KeptEvent for entry in self.model.log]
        assert found == wanted

    @precondition(lambda self: not self.bench.queue.is_waking)
    @invariant()
    def every_record_has_counted_as_the_model_has(self) -> None:
        queue = self.bench.queue
        for model_pod in self.model.pods.values():
            record = queue.find(f"default/{model_pod.name}") or queue.in_flight.get(self.infos[model_pod.name].uid)
            assert record is not None
            assert (record.attempts, record.unschedulable_count, record.error_count) == (
                model_pod.attempts,
                model_pod.rejections,
                model_pod.errors,
            )
            assert record.timestamp == model_pod.since * 1_000_000

    @invariant()
    def the_queue_is_consistent(self) -> None:
        self.bench.queue.check()
        assert all(count >= 0 for count in self.bench.queue.pending_counts().values())


QueueAndModel.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestQueueAgainstModel = QueueAndModel.TestCase


class SlicedQueueAndModel(QueueAndModel):
    """Each wake of more than one waiting pod is interrupted after every step, and goes on, or is finished by whatever
    comes next. The model knows nothing of that: the outcome is that of one step."""

    steps_a_slice = 1

    @precondition(lambda self: self.bench.queue.is_waking)
    @rule(slices=st.integers(1, 6))
    def go_on(self, slices: int) -> None:
        for _ in range(slices):
            self.bench.queue.continue_waking()


SlicedQueueAndModel.TestCase.settings = QueueAndModel.TestCase.settings
TestSlicedQueueAgainstModel = SlicedQueueAndModel.TestCase
