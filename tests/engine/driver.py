"""A small cluster around an engine, in virtual time: a test says what is there, what happens, and what it expects.

Nothing is answered unless the test says so: `schedule()` tries one pod, and its writes lie in `unanswered` until
`succeed`, `fail` or `lose` is called on them. `settle()` plays an API server that accepts everything, until nothing is
left to do. The engine's invariants are checked after every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from scheduler import testing
from scheduler.cluster.pod_info import PodInfo
from scheduler.compose import build_engine, build_profiles
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import load
from scheduler.engine.attempt import Attempt
from scheduler.engine.commands import Command, RecordAttempt, RecordGroupAttempt
from scheduler.framework.plugin import Plugin
from scheduler.messages.commands import (
    BindPod,
    CallExtender,
    DeletePod,
    EvictPod,
    PatchGroupStatus,
    PatchPodStatus,
    ReportProblem,
    RunPlugin,
    StopPlugins,
    UpdateObject,
    WriteEvent,
)
from scheduler.messages.now import Now
from scheduler.messages.status import failure
from scheduler.messages.stimuli import (
    ExtenderAnswered,
    ObjectDeleted,
    ObjectObserved,
    PermitDecided,
    PluginFinished,
    Stimulus,
    Synced,
    Tick,
    WriteFinished,
)
from scheduler.objects.kinds import Kind, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.plugins.registry import registry

WALL = 1_800_000_000 * 10**9
START = 1000.0
DELETED_AT = "2027-01-15T08:00:00Z"

CommandType = TypeVar("CommandType")
Answerable = BindPod | PatchPodStatus | DeletePod | EvictPod | UpdateObject | RunPlugin | CallExtender


class Cluster:
    """``plugins`` are added to the default ones, after them. ``profile``, ``tandem``, ``configuration``: fields of the
    configuration files; ``gates``: the flag of the feature gates. Pods terminate at once when deleted, unless they are
    in ``lingering``."""

    def __init__(
        self,
        *plugins: type[Plugin],
        profile: Mapping[str, Any] | None = None,
        configuration: Mapping[str, Any] | None = None,
        tandem: Mapping[str, Any] | None = None,
        seed: int = 1,
        first: bool = False,
        gates: str = "",
    ) -> None:
        self.time = START
        self.sent: list[Command] = []
        self.unanswered: list[Answerable] = []
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.lingering: set[str] = set()
        self.tolerates_errors = False
        self._version = 0
        own = {"schedulerName": "tandem-scheduler", **(profile or {})}
        if plugins:
            own.setdefault("plugins", {})["multiPoint"] = {"enabled": [{"name": each.name} for each in plugins]}
            if first:
                built_in = [{"name": name} for name in registry()]
                own["plugins"]["multiPoint"] = {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": each.name} for each in plugins] + built_in,
                }
        documents = [
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [own],
                **(configuration or {}),
            }
        ]
        if tandem is not None:
            documents.append({"apiVersion": "tandem.scheduling/v1alpha1", "kind": "TandemConfiguration", **tandem})
        # What begins with { would be one JSON document.
        text = "---\n" + "\n---\n".join(msgspec.json.encode(document).decode() for document in documents)
        loaded = load(text, gates=parse_feature_gates(gates)) if gates else load(text)
        self.profiles = build_profiles(loaded, registry(plugins, loaded.plugin_gates))
        self.engine = build_engine(loaded, started=self.now, seed=seed, stopwatch=lambda: 0.0, profiles=self.profiles)
        self.feed(Synced())

    # --- what is there ------------------------------------------------------------------------------------------------

    def node(self, name: str, **fields: Any) -> None:
        """A node appears, or changes."""
        self.show(testing.node(name, resource_version=self._next_version(), **fields))

    def nodes_like(self, count: int, **fields: Any) -> None:
        for number in range(count):
            self.node(f"n{number}", **fields)

    def pod(self, name: str, **fields: Any) -> None:
        """A pod appears, or changes: pending, or running on ``node``."""
        self.show(testing.pod(name, resource_version=self._next_version(), **fields))

    def show(self, obj: ApiObject) -> None:
        """The watch shows an object."""
        if isinstance(obj, Pod):
            self.pods[obj.key] = obj
        if isinstance(obj, Node):
            self.nodes[obj.metadata.name] = obj
        self.feed(ObjectObserved(kind_of(obj), obj))

    def change(self, name: str, **metadata: Any) -> None:
        """A pod's metadata changes."""
        pod = self.pods[_key(name)]
        self._store(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **metadata)))
        self.watch(name)

    def remove_node(self, name: str) -> None:
        self.feed(ObjectDeleted(Kind.NODE, self.nodes.pop(name)))

    def terminate(self, name: str) -> None:
        """The pod gets its deletionTimestamp."""
        self.change(name, deletion_timestamp=DELETED_AT)

    def delete(self, name: str) -> None:
        """The pod is gone."""
        self.feed(ObjectDeleted(Kind.POD, self.pods.pop(_key(name))))

    def watch(self, name: str) -> None:
        """The watch shows a pod as the API server has it."""
        self.feed(ObjectObserved(Kind.POD, self.pods[_key(name)]))

    # --- what happens -------------------------------------------------------------------------------------------------

    def feed(self, stimulus: Stimulus) -> list[Command]:
        return self._take(self.engine.handle(stimulus, self.now))

    def schedule(self) -> Attempt | None:
        """Try the next pod, or take a step with a group. The pod's attempt; None if none was taken, or the engine waits
        for an extender."""
        before = self.engine.queue.cycle
        commands = self.engine.schedule_one(self.now)
        self._take(commands or ())
        if commands is None or self.engine.queue.cycle == before:
            return None
        in_flight = [command.attempt for command in commands if isinstance(command, RecordAttempt)]
        if in_flight:
            return in_flight[0]
        newest = list(self.engine.bindings.under_way)[-1:]
        return newest[0].attempt if newest else None

    def schedule_all(self) -> None:
        """Try pods until none is left to take; nothing is answered."""
        while self._schedule_some():
            pass

    def _schedule_some(self) -> bool:
        commands = self.engine.schedule_one(self.now)
        if commands is None:
            return False
        self._take(commands)
        return True

    def advance(self, seconds: float) -> None:
        """Time passes; a Tick comes whenever the engine wants one."""
        end = self.time + seconds
        while (due := self.engine.next_deadline()) is not None and due <= end:
            self.time = max(self.time, due)
            self.feed(Tick())
            if self.engine.next_deadline() == due:
                self.time += 0.001
        self.time = end

    def settle(self, rounds: int = 200) -> None:
        """Every write is accepted and comes back by the watch, every waiting pod is tried, until nothing moves."""
        for _ in range(rounds):
            if self.unanswered:
                self.succeed(self.unanswered[0])
            elif not self._schedule_some():
                return
        raise AssertionError("the cluster does not come to rest")

    def allow(self, name: str, plugin: str) -> None:
        self.feed(PermitDecided(self.uid(name), plugin, True))

    def reject(self, name: str, plugin: str, message: str = "no") -> None:
        self.feed(PermitDecided(self.uid(name), plugin, False, message))

    # --- answers ------------------------------------------------------------------------------------------------------

    def succeed(self, command: Answerable) -> None:
        """The API server does it, the watch shows it, the answer arrives."""
        self.unanswered.remove(command)
        match command:
            case RunPlugin(ticket=ticket):
                self.feed(PluginFinished(ticket, None))
                return
            case CallExtender():
                raise AssertionError("a test must say what an extender answers")
        if self.take_effect(command):
            self._watch_if_there(command)
            self.feed(WriteFinished(command.ticket, True, 200))
        else:
            self.feed(WriteFinished(command.ticket, False, 404, "NotFound", "not found"))

    def fail(self, command: Answerable, status: int = 500, message: str = "broken", reason: str = "") -> None:
        """It is refused."""
        self.unanswered.remove(command)
        match command:
            case RunPlugin(ticket=ticket):
                self.feed(PluginFinished(ticket, failure(message)))
            case CallExtender(ticket=ticket):
                self.feed(ExtenderAnswered(ticket, error=message))
            case _:
                self.feed(WriteFinished(command.ticket, False, status, reason, message))

    def lose(self, command: Answerable) -> None:
        """The API server does it, but no answer arrives."""
        self.unanswered.remove(command)
        self.take_effect(command)
        self.feed(WriteFinished(command.ticket, False, 0, "", "timed out"))

    def answer(self, command: CallExtender, body: Any) -> None:
        """What an extender says, as JSON."""
        self.unanswered.remove(command)
        self.feed(ExtenderAnswered(command.ticket, msgspec.json.encode(body)))

    def take_effect(self, command: Answerable) -> bool:
        """Apply a write in the API server without a watch event. False if the pod does not exist."""
        if isinstance(command, UpdateObject | RunPlugin | CallExtender):
            return True
        pod = self.pods.get(command.pod.key)
        if pod is None or pod.metadata.uid != command.pod.uid:
            return False
        match command:
            case BindPod(node=node):
                self._store(pod.on_node(node))
            case PatchPodStatus(condition=condition, nominated_node_name=nominated):
                if condition is not None:
                    others = [each for each in pod.status.conditions if each.type != condition.type]
                    status = msgspec.structs.replace(pod.status, conditions=(*others, condition))
                    pod = msgspec.structs.replace(pod, status=status)
                self._store(pod if nominated is None else pod.nominated_to(nominated))
            case DeletePod() | EvictPod():
                if pod.metadata.name in self.lingering:
                    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=DELETED_AT)
                    self._store(msgspec.structs.replace(pod, metadata=metadata))
                else:
                    del self.pods[pod.key]
                    self._gone = pod
        return True

    def _watch_if_there(self, command: Answerable) -> None:
        if isinstance(command, UpdateObject | RunPlugin | CallExtender):
            return
        pod = self.pods.get(command.pod.key)
        if pod is not None:
            self.feed(ObjectObserved(Kind.POD, pod))
        else:
            self.feed(ObjectDeleted(Kind.POD, self._gone))

    # --- what came of it ----------------------------------------------------------------------------------------------

    @property
    def now(self) -> Now:
        return Now(self.time, WALL + round((self.time - START) * 10**9))

    def writes(self, kind: type[CommandType], name: str | None = None) -> list[CommandType]:
        """Unanswered writes of this type about this pod."""
        return [
            command
            for command in self.unanswered
            if isinstance(command, kind) and (name is None or _pod_name(command) == name)
        ]

    def write(self, kind: type[CommandType], name: str | None = None) -> CommandType:
        """The only one of them."""
        found = self.writes(kind, name)
        assert len(found) == 1, f"{len(found)} {kind.__name__} of {name}: {self.unanswered}"
        return found[0]

    def said(self, name: str, reason: str = "FailedScheduling") -> list[str]:
        """The notes of the events about a pod."""
        return [
            command.note
            for command in self.sent
            if isinstance(command, WriteEvent) and command.regarding.name == name and command.reason == reason
        ]

    def problems(self) -> list[str]:
        """What the engine has reported for the log."""
        return [command.message for command in self.sent if isinstance(command, ReportProblem)]

    def attempts(self, name: str) -> list[Attempt]:
        """All attempts that are over, in order."""
        return [
            command.attempt
            for command in self.sent
            if isinstance(command, RecordAttempt) and command.attempt.pod == _key(name)
        ]

    def attempt(self, name: str) -> Attempt:
        """The last one that is over."""
        return self.attempts(name)[-1]

    def ended_removals(self) -> dict[str, int]:
        """Result (``success``, ``error``) → removals of victims that ended so; without those that never happened."""
        return {result: times.count for result, times in self.engine.room.times.items() if times.count}

    def place(self, name: str) -> str:
        """Where the queue has the pod; "" if it knows nothing of it."""
        queue = self.engine.queue
        for record in queue.in_flight.named(_key(name)):
            return queue.story(record).place.value
        found = queue.find(_key(name))
        return "" if found is None else queue.story(found).place.value

    def node_of(self, name: str) -> str:
        """Where the engine counts the pod, "" if nowhere."""
        placed = self.engine.cache.placed(self.uid(name))
        return "" if placed is None else placed.node_name

    def nominated(self, name: str) -> str:
        return self.engine.nominator.nominated_node(self.uid(name))

    def uid(self, name: str) -> str:
        pod = self.pods.get(_key(name))
        return f"pod-{name}" if pod is None else pod.metadata.uid

    def is_quiet(self) -> bool:
        """No attempt is under way, nothing is assumed, and no answer is outstanding."""
        engine = self.engine
        return not (len(engine.queue.in_flight) or len(engine.bindings) or engine.cache.assumed_count)

    def info(self, name: str, **fields: Any) -> PodInfo:
        return PodInfo(testing.pod(name, **fields))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _take(self, commands: Sequence[Command]) -> list[Command]:
        self.sent.extend(commands)
        self.unanswered.extend(_answerable(commands))
        self.engine.check()
        for command in commands:
            if isinstance(command, ReportProblem) and command.error is not None and not self.tolerates_errors:
                raise command.error
        return list(commands)

    def _store(self, pod: Pod) -> None:
        metadata = msgspec.structs.replace(pod.metadata, resource_version=self._next_version())
        self.pods[pod.key] = msgspec.structs.replace(pod, metadata=metadata)

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)


def _answerable(commands: Iterable[Command]) -> list[Answerable]:
    wanted = [
        command
        for command in commands
        if not isinstance(
            command, WriteEvent | RecordAttempt | RecordGroupAttempt | PatchGroupStatus | ReportProblem | StopPlugins
        )
        and not (isinstance(command, RunPlugin) and command.point == "PostBind")
    ]
    return cast("list[Answerable]", wanted)


def _pod_name(command: Any) -> str:
    pod = getattr(command, "pod", None)
    return getattr(pod, "name", "")


def _key(name: str) -> str:
    return name if "/" in name else f"default/{name}"
