"""A thousand preemptors of three victims each on a thousand full nodes, the whole way from shown to bound.

The engine is production's, and so is the order of its writes (``Pacing``); a write that is sent is answered at once,
and the watch shows its effect. Between two decisions a few writes are answered, as in a scheduler whose limit is the
API server.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from scheduler.controller.write.outbox import Sendable, Sent
from scheduler.controller.write.pacing import Pacing, Rank
from scheduler.controller.write.writer import rank_of
from scheduler.engine.engine import Engine
from scheduler.messages.commands import BindPod, DeletePod, PatchPodStatus
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Tick, WakingContinued, WriteFinished
from scheduler.objects.kinds import Kind, decode
from scheduler.objects.pod import Pod
from scheduler.testing.documents import pod_json
from tests.benchmarks.clusters import engine_with, now, pending
from tests.benchmarks.kinds import observe
from tests.benchmarks.requests import bound, csi_nodes

NODES = 1_000
PREEMPTORS = 1_000
PODS_A_NODE = 4
VICTIMS = 3
WRITES_A_DECISION = 1
PLACES = 128
UNLIKE = 400
BIG_NODES = 100
BIG_PREEMPTORS = 20
VICTIMS_OF_A_BIG_ONE = 100

Result = TypeVar("Result")


def all_waiting() -> dict[str, float]:
    """CPU of the engine for each preemptor, where all wait at the start and where each comes after the one before is
    bound; and the writes that are answered before the first binding."""
    together, alone = Api(), Api()
    fill(together, NODES, PODS_A_NODE)
    fill(alone, NODES, PODS_A_NODE)
    together.run_all([preemptor(number, cpu=str(VICTIMS)) for number in range(PREEMPTORS)])
    alone.seconds = 0.0
    for number in range(PREEMPTORS):
        alone.show(preemptor(number, cpu=str(VICTIMS)))
        alone.run()
    alone.expect_bound(PREEMPTORS)
    return {
        "all waiting, CPU each, ms": together.seconds / PREEMPTORS * 1e3,
        "one after the other, CPU each, ms": alone.seconds / PREEMPTORS * 1e3,
        "all waiting, to one after the other": together.seconds / alone.seconds,
        "all waiting, attempts each": together.attempts / PREEMPTORS,
        "all waiting, writes before the first binding": float(min(together.bound.values())),
        "all waiting, writes before a binding, median": statistics.median(together.bound.values()),
        "all waiting, writes before the last binding": float(max(together.bound.values())),
        "all waiting, acting writes each": together.acting_writes / PREEMPTORS,
        "one after the other, acting writes each": alone.acting_writes / PREEMPTORS,
    }


def each_unlike_the_others() -> dict[str, float]:
    """CPU of the engine for each preemptor, where all wait at the start and every pod has a bound claim of its own: no
    preemptor shares an answer with another one. ``alike``: the same number of preemptors without claims."""
    alike, unlike = Api(), Api()
    fill(alike, UNLIKE, PODS_A_NODE)
    alike.run_all([preemptor(number, cpu=str(VICTIMS)) for number in range(UNLIKE)])
    fill(unlike, UNLIKE, PODS_A_NODE, claims=True)
    for number in range(UNLIKE):
        observe(unlike.engine, bound(f"high-{number:05}"))
    unlike.run_all([preemptor(number, str(VICTIMS), claims=[f"high-{number:05}"]) for number in range(UNLIKE)])
    return {
        "CPU each, ms": unlike.seconds / UNLIKE * 1e3,
        "alike, CPU each, ms": alike.seconds / UNLIKE * 1e3,
        "unlike to alike": unlike.seconds / alike.seconds,
        "acting writes each": unlike.acting_writes / UNLIKE,
    }


def of_a_hundred_victims() -> dict[str, float]:
    """CPU of the engine for a preemptor that needs a whole node of a hundred pods."""
    api = Api()
    fill(api, BIG_NODES, VICTIMS_OF_A_BIG_ONE, cpu="320m")
    api.seconds = 0.0
    for number in range(BIG_PREEMPTORS):
        api.show(preemptor(number, cpu="32"))
        api.run()
    api.expect_bound(BIG_PREEMPTORS)
    return {
        "CPU each, ms": api.seconds / BIG_PREEMPTORS * 1e3,
        "CPU a victim, µs": api.seconds / BIG_PREEMPTORS / VICTIMS_OF_A_BIG_ONE * 1e6,
        "acting writes each": api.acting_writes / BIG_PREEMPTORS,
    }


def preemptor(number: int, cpu: str, **fields: Any) -> dict[str, Any]:
    document = pending(f"high-{number:05}", cpu=cpu, **fields)
    document["spec"]["priority"] = 1_000
    document["metadata"]["resourceVersion"] = "1"
    return document


def fill(api: Api, nodes: int, pods_a_node: int, cpu: str = "1", *, claims: bool = False) -> None:
    """Fills each node with pods of low priority. ``claims``: each with a bound claim, of a driver with limits."""
    api.engine = engine_with(nodes, cpu=str(pods_a_node) if cpu == "1" else "32")
    if claims:
        observe(api.engine, csi_nodes(nodes))
    for number in range(nodes * pods_a_node):
        name = f"low-{number:05}"
        if claims:
            observe(api.engine, bound(name))
        there = pod_json(
            name,
            cpu=cpu,
            memory="200Mi",
            node=f"node-{number // pods_a_node:05}",
            priority=1,
            claims=[name] if claims else [],
        )
        there["metadata"] |= {"uid": f"uid-low-{number}", "resourceVersion": "1"}
        api.show(there)


class _Write:
    """A command as pacing sees it."""

    def __init__(self, command: BindPod | DeletePod | PatchPodStatus) -> None:
        self.command = command
        self.rank = rank_of(command)
        self.key = command.pod.uid
        self.is_continuation = not isinstance(command, BindPod) and command.is_continuation

    def folded_over(self, older: Sendable) -> _Write | None:
        return None

    async def send(self) -> Sent:
        raise AssertionError("answered by the benchmark")


class Api:
    """Answers an engine's writes in the order in which production sends them, and shows their effects."""

    def __init__(self) -> None:
        self.engine: Engine = engine_with(0)
        self.seconds = 0.0
        """CPU of the engine."""
        self.attempts = 0
        self.acting_writes = 0
        """Writes that change more than the condition of a pod that waits."""
        self._writes = 0
        self._pods: dict[str, dict[str, Any]] = {}
        self._pacing: Pacing[Sendable] = Pacing(PLACES)
        self.bound: dict[str, int] = {}
        """UID of each pod that is bound → how many writes had been answered by then."""

    def show(self, document: dict[str, Any]) -> None:
        self._pods[document["metadata"]["uid"]] = document
        self._handle(ObjectObserved(Kind.POD, _pod(document)))

    def run_all(self, documents: Sequence[dict[str, Any]]) -> None:
        """Let these pods wait, then decide until each is bound; ``seconds`` are of that alone."""
        for document in documents:
            self.show(document)
        self.seconds = 0.0
        self.run()
        self.expect_bound(len(documents))

    def run(self) -> None:
        """Decide and answer until nothing is left to do."""
        while True:
            decided = self._timed(lambda: self.engine.schedule_one(now()))
            if decided is not None:
                self.attempts += 1
                self._offer(decided)
            answered = [self._answer_next() for _ in range(WRITES_A_DECISION)]
            if decided is None and not any(answered) and not self._wait():
                return

    def expect_bound(self, pods: int) -> None:
        if len(self.bound) != pods:
            raise AssertionError(f"{len(self.bound)} of {pods} are bound: {self.engine.queue.pending_counts()}")

    def _wait(self) -> bool:
        """Goes to the end of the first back-off; False where nothing waits for a time that comes soon."""
        deadline = self.engine.next_deadline()
        if deadline is None or not len(self.engine.queue.backoff_pods()):
            return False
        time.sleep(max(0.0, deadline - time.monotonic()))
        self._handle(Tick())
        return True

    def _handle(self, stimulus: Any) -> None:
        self._offer(self._timed(lambda: self.engine.handle(stimulus, now())))
        while self.engine.is_waking:
            self._offer(self._timed(lambda: self.engine.handle(WakingContinued(), now())))

    def _timed(self, step: Callable[[], Result]) -> Result:
        began = time.thread_time()
        result = step()
        self.seconds += time.thread_time() - began
        return result

    def _offer(self, commands: Iterable[Any] | None) -> None:
        for command in commands or ():
            if isinstance(command, BindPod | DeletePod | PatchPodStatus):
                self._pacing.offer(_Write(command), 0.0)

    def _answer_next(self) -> bool:
        slot = self._pacing.take(0.0)
        if slot is None:
            return False
        write = slot.write
        assert isinstance(write, _Write)
        self._writes += 1
        self.acting_writes += write.rank is not Rank.CONDITION
        command = write.command
        document = self._pods.get(command.pod.uid)
        shown: deque[Any] = deque()
        if document is not None:
            shown.extend(self._effects(command, document))
        self._pacing.finished(slot)
        if command.ticket:
            self._handle(WriteFinished(command.ticket, document is not None, 200 if document is not None else 404))
        for stimulus in shown:
            self._handle(stimulus)
        return True

    def _effects(self, command: Any, document: dict[str, Any]) -> Iterable[Any]:
        metadata, spec, status = document["metadata"], document["spec"], document["status"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        if isinstance(command, BindPod):
            spec["nodeName"] = command.node
            self.bound[command.pod.uid] = self._writes
        elif isinstance(command, DeletePod):
            del self._pods[command.pod.uid]
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            yield ObjectObserved(Kind.POD, _pod(document))
            yield ObjectDeleted(Kind.POD, _pod(document))
            return
        else:
            if command.nominated_node_name is not None:
                status["nominatedNodeName"] = command.nominated_node_name
            if command.condition is not None:
                kept = [one for one in status.get("conditions", ()) if one["type"] != command.condition.type]
                status["conditions"] = [*kept, msgspec.to_builtins(command.condition)]
        yield ObjectObserved(Kind.POD, _pod(document))


def _pod(document: dict[str, Any]) -> Pod:
    found = decode(Kind.POD, msgspec.json.encode(document))
    assert isinstance(found, Pod)
    return found
