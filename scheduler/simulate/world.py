"""The engine in virtual time: a whole cluster without HTTP, whose every run follows from one seed.

The engine's commands are carried out on ``Facts`` after a delay, with the faults that ``Trouble`` injects; changes come
back as watch events, in order for each kind, each kind with its own delay. Time jumps from one event to the next: the
heap's, or the engine's own deadline.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Protocol, TypeVar

import msgspec

from scheduler.engine.commands import Command, RecordAttempt, RecordGroupAttempt
from scheduler.engine.engine import Engine
from scheduler.errors import InvariantViolation
from scheduler.messages.claim_commands import ClaimCommand
from scheduler.messages.commands import (
    BindPod,
    CallExtender,
    DeletePod,
    EvictPod,
    PatchGroupStatus,
    PatchPodStatus,
    ReportProblem,
    RunPlugin,
    UpdateObject,
    WriteEvent,
)
from scheduler.messages.now import Now
from scheduler.messages.stimuli import (
    ObjectDeleted,
    ObjectObserved,
    PluginFinished,
    Stimulus,
    Synced,
    Tick,
    WakingContinued,
    WriteFinished,
)
from scheduler.objects.kinds import READ_KINDS, Kind, decode
from scheduler.objects.meta import Condition
from scheduler.objects.timestamps import format_seconds
from scheduler.simulate.world_devices import ClaimWrites, check_devices, free_claims, make_claims
from scheduler.simulate.world_extender import Extender, extender_answer, no_extender
from scheduler.simulate.world_facts import Document, Facts, Refused, is_over
from scheduler.simulate.world_gangs import GangWatch
from scheduler.simulate.world_invariants import check_engine, check_nodes
from scheduler.simulate.world_trouble import CALM, NO_ANSWER, REFUSALS, Range, Trouble, WriteFate, outcome_of
from scheduler.simulate.world_volumes import bind_volumes, check_volumes

START_MONOTONIC = 1_000.0
START_WALL = 1_800_000_000 * 10**9
DECISION_SECONDS = 0.001
"""Virtual seconds of one scheduling cycle: watch events arrive in between."""

EngineFactory = Callable[[Now, int, int], Engine]
"""``factory(started, seed, configuration)``; its stopwatch must not look at a real clock. ``configuration`` is
the index of the one in force, in the run's list."""

Reloader = Callable[[Engine, int, Now], bool]
"""``reload(engine, configuration, now)`` is False while the engine can't take up another configuration."""

RELOAD_AGAIN_SECONDS = 0.05

MAX_NOTED = 10_000
"""Subjects of chance, and bindings: many times what is alive in any run."""

Value = TypeVar("Value")


class Door(Protocol):
    """What is fed: an engine, or one with a tape beside it."""

    def handle(self, stimulus: Stimulus, now: Now) -> list[Command]: ...

    def schedule_one(self, now: Now) -> list[Command] | None: ...


class World:
    """``create``, ``change`` and ``delete`` objects as users do, then ``run_for`` or ``run_until``; ``check`` whenever.

    ``trouble`` may be replaced at any time. ``journal`` has a line for each attempt that is over, ``events`` every
    Event written, ``problems`` what the engine reported for the log.
    """

    def __init__(
        self,
        seed: int,
        factory: EngineFactory,
        trouble: Trouble = CALM,
        *,
        reload: Reloader | None = None,
        extender: Extender = no_extender,
        door_of: Callable[[Engine], Door] = lambda engine: engine,
    ) -> None:
        self.seed = seed
        self.trouble = trouble
        self.random = Random(seed)
        """For users of the world: the world itself draws nothing from it."""
        self._drawn: OrderedDict[str, int] = OrderedDict()
        """Subject → how often chance was asked for it."""
        self.facts = Facts(self._changed)
        self.journal: list[str] = []
        self.events: list[WriteEvent] = []
        self.problems: list[str] = []
        self.monotonic = START_MONOTONIC
        self._factory = factory
        self._reload = reload
        self._extender = extender
        self._configuration = 0
        self._door_of = door_of
        self.engine = factory(self.now, seed, 0)
        self.door = door_of(self.engine)
        self._life = 0
        """The number of engines before this one: answers to an earlier one are lost."""
        self._streams: dict[Kind, int] = {}
        """The number of each kind's watch; events under way in an earlier one are lost."""
        self._seen: dict[Kind, dict[str, bytes]] = {}
        """What the engine has been shown, by kind and key."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._delivered_until: dict[Kind, float] = {}
        self._frees_claims = False
        self._binds_volumes = False
        self._claims = ClaimWrites(self.facts)
        self._confirmed: OrderedDict[str, str] = OrderedDict()
        """Bindings that the engine knows to be done: UID → node."""
        self._gangs = GangWatch()
        self._feed(Synced())

    @property
    def now(self) -> Now:
        return Now(self.monotonic, START_WALL + round((self.monotonic - START_MONOTONIC) * 1e9))

    @property
    def time(self) -> str:
        """The present time, in the format of objects."""
        return format_seconds(self.now.wall)

    # --- what users do ------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, document: Document) -> str:
        """Returns the key. Raises Refused for a name that is taken."""
        return self.facts.create(kind, document, self.time)

    def change(self, kind: Kind, key: str, edit: Callable[[Document], None]) -> None:
        self.facts.change(kind, key, edit)

    def delete(self, kind: Kind, key: str) -> None:
        """A pod that is bound terminates first; a node takes its pods with it."""
        if kind is Kind.POD:
            pod = self.facts.get(kind, key)
            if pod is not None and self.facts.delete_pod(key, pod["metadata"]["uid"], self.time):
                self._stop_later(key, pod["metadata"]["uid"])
            return
        self.facts.remove(kind, key)
        if kind is Kind.NODE:
            for pod_key, pod in self.facts.of(Kind.POD):
                if pod["spec"].get("nodeName") == key:
                    self.facts.remove(Kind.POD, pod_key)

    def break_watch(self, kind: Kind) -> None:
        """Lose the events under way, and list the objects again: deletions meanwhile are known by absence."""
        self._streams[kind] = self._streams.get(kind, 0) + 1
        listed = {key: msgspec.json.encode(document) for key, document in self.facts.of(kind)}
        shown = self._seen.setdefault(kind, {})
        for key in [key for key in shown if key not in listed]:
            self._feed(ObjectDeleted(kind, decode(kind, shown.pop(key)), is_stale=True))
        for key, body in listed.items():
            if shown.get(key) != body:
                shown[key] = body
                self._feed(ObjectObserved(kind, decode(kind, body)))

    def restart(self) -> None:
        """The scheduler is killed and starts again: it knows nothing but the objects; writes under way are lost."""
        self._life += 1
        self._confirmed.clear()
        self._gangs.restart()
        self._seen.clear()
        self.engine = self._factory(self.now, self.seed + self._life, self._configuration)
        self.door = self._door_of(self.engine)
        for kind in READ_KINDS:
            self.break_watch(kind)
        self._feed(Synced())

    def reload(self, configuration: int) -> None:
        """Another configuration of the run's list, as soon as the engine can take it up."""
        self._configuration = configuration
        life = self._life

        def swap() -> None:
            is_newest = self._configuration == configuration and self._life == life
            if is_newest and self._reload is not None and not self._reload(self.engine, configuration, self.now):
                self._at(self.monotonic + RELOAD_AGAIN_SECONDS, swap)

        swap()

    # --- time ---------------------------------------------------------------------------------------------------------

    def run_for(self, seconds: float) -> None:
        end = self.monotonic + seconds
        while self._step(end):
            pass
        self.monotonic = max(self.monotonic, end)

    def run_until(self, predicate: Callable[[], bool], seconds: float = 600.0) -> bool:
        """Run until the condition is true, or for this much virtual time; returns whether it became true."""
        end = self.monotonic + seconds
        while not predicate():
            if not self._step(end):
                return predicate()
        return True

    def _step(self, end: float) -> bool:
        """Process one event not later than ``end``; False if there is none."""
        if self._heap and self._heap[0][0] <= self.monotonic:
            heapq.heappop(self._heap)[2]()
            return True
        deadline = self.engine.next_deadline()
        if deadline is not None and deadline <= self.monotonic:
            self._feed(Tick())
            # A deadline that its Tick does not remove would stop the simulation.
            after = self.engine.next_deadline()
            if after is not None and after <= self.monotonic and not self.engine.queue.active_pods():
                raise InvariantViolation(f"deadline {after} is over, and a Tick does nothing about it")
        commands = self.door.schedule_one(self.now)
        if commands is not None:
            self._carry_out(commands)
            self.monotonic += DECISION_SECONDS
            return True
        dates = [date for date in (self.engine.next_deadline(), self._heap[0][0] if self._heap else None) if date]
        if not dates or min(dates) > end:
            return False
        self.monotonic = max(self.monotonic, min(dates))
        return True

    def _chance(self, subject: str) -> Random:
        """Chance of its own for each subject and each time that it is asked for: what is drawn for one write does not
        depend on how many others there were, so that a script from which steps are left out stays much the same."""
        number = self._drawn.get(subject, 0) + 1
        _note(self._drawn, subject, number)
        return Random(f"{self.seed} {subject} {number}")

    def _later(self, bounds: Range, subject: str, what: Callable[[], None]) -> None:
        self._at(self.monotonic + self._chance(subject).uniform(*bounds), what)

    def _at(self, date: float, what: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (date, self._sequence, what))

    # --- to the engine ------------------------------------------------------------------------------------------------

    def _feed(self, stimulus: Stimulus) -> None:
        self._gangs.fed(stimulus, self.engine, self.monotonic)
        self._carry_out(self.door.handle(stimulus, self.now))
        while self.engine.is_waking:
            self._carry_out(self.door.handle(WakingContinued(), self.now))

    def _changed(self, kind: Kind, document: Document, is_deleted: bool) -> None:
        """The watch: later, but for each kind in order. It brings bytes, so that the decoder takes part."""
        if kind in (Kind.POD, Kind.RESOURCE_CLAIM):
            self._free_claims_later()
        if kind in (Kind.PERSISTENT_VOLUME, Kind.PERSISTENT_VOLUME_CLAIM):
            self._bind_volumes_later()
        body = msgspec.json.encode(document)
        wanted = self.monotonic + self._chance(f"watch {kind.value} {_key_of(document)}").uniform(
            *self.trouble.watch_seconds
        )
        date = max(wanted, self._delivered_until.get(kind, 0.0))
        self._delivered_until[kind] = date
        stream = self._streams.get(kind, 0)

        def deliver() -> None:
            if self._streams.get(kind, 0) != stream:
                return
            shown, obj = self._seen.setdefault(kind, {}), decode(kind, body)
            if is_deleted:
                shown.pop(obj.key, None)
                self._feed(ObjectDeleted(kind, obj))
            else:
                shown[obj.key] = body
                self._feed(ObjectObserved(kind, obj))

        self._at(date, deliver)

    def _free_claims_later(self) -> None:
        """Run the claim controller: what pods need made for them, and what they have left behind."""
        if self._frees_claims or not any(True for _ in self.facts.of(Kind.DEVICE_CLASS)):
            return
        self._frees_claims = True

        def look() -> None:
            self._frees_claims = False
            make_claims(self.facts, self.time)
            free_claims(self.facts)

        self._later(self.trouble.stop_seconds, "claims", look)

    def _bind_volumes_later(self) -> None:
        """Run the volume controller."""
        if self._binds_volumes:
            return
        self._binds_volumes = True

        def look() -> None:
            self._binds_volumes = False
            bind_volumes(self.facts, self.time)

        self._later(self.trouble.provision_seconds, "volumes", look)

    # --- from the engine ----------------------------------------------------------------------------------------------

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case RecordAttempt(attempt):
                    victims = ",".join(attempt.victims)
                    self.journal.append(
                        f"{self.monotonic:.6f} {attempt.pod} #{attempt.number} {attempt.result} {attempt.node} "
                        f"[{attempt.message}] {attempt.nominated_node} {victims}"
                    )
                case RecordGroupAttempt(attempt):
                    self.journal.append(f"{self.monotonic:.6f} group {attempt.group} {attempt.result.value}")
                case WriteEvent():
                    self.events.append(command)
                case ReportProblem(message):
                    self.problems.append(message)
                case CallExtender():
                    fails = self.trouble.extender_fails
                    answer = extender_answer(command, self._extender, fails, self._chance("extender"))
                    self._later(self.trouble.write_seconds, "extender", partial(self._answer, answer, self._life))
                case RunPlugin(ticket=ticket):
                    done = PluginFinished(ticket, None)
                    self._later(self.trouble.write_seconds, "plugin", partial(self._answer, done, self._life))
                case _:
                    self.send(command)

    def _answer(self, stimulus: Stimulus, life: int) -> None:
        """Answer this engine; an earlier engine's answers are dropped."""
        if life == self._life:
            self._feed(stimulus)

    def send(self, command: Command) -> None:
        """A write: it arrives, is done or not, and is answered or not."""
        if isinstance(command, BindPod) and command.pod.uid in self._confirmed:
            raise InvariantViolation(f"pod {command.pod.key} is bound again, to {command.node}")
        if isinstance(command, BindPod):
            self._gangs.sends(command, self.engine, self.monotonic)
        subject = f"{type(command).__name__} {_subject_of(command)}"
        chance = self._chance(subject)
        fate = self._fate_of(command, chance)
        refusal = REFUSALS[chance.randrange(len(REFUSALS))]
        late_seconds = chance.uniform(*self.trouble.late_seconds)
        life = self._life

        def arrive() -> None:
            if self._life != life:
                return
            if fate is WriteFate.REFUSED:
                self._finish(command, refusal, life)
            elif fate is WriteFate.ANSWERED:
                self._finish(command, self._do(command), life)
            else:
                if fate is WriteFate.UNHEARD:
                    self._do(command)
                reported = self.monotonic + self.trouble.timeout_seconds
                self._at(reported, lambda: self._finish(command, NO_ANSWER, life))
                if fate is WriteFate.LATE:
                    self._at(reported + late_seconds, do_late)

        def do_late() -> None:
            if self._life == life:
                self._do(command)

        self._later(self.trouble.write_seconds, subject, arrive)

    def _fate_of(self, command: Command, chance: Random) -> WriteFate:
        drawn = chance.random()
        if drawn < self.trouble.refused:
            return WriteFate.REFUSED
        if drawn >= self.trouble.refused + self.trouble.unanswered:
            return WriteFate.ANSWERED
        possible = (WriteFate.LOST, WriteFate.UNHEARD, WriteFate.LATE)
        return possible[chance.randrange(3 if isinstance(command, BindPod) else 2)]

    def _finish(self, command: Command, refused: Refused | None, life: int) -> None:
        """Report a write's outcome as the writer does: after a conflict it checks whether the pod has the requested
        node."""
        if isinstance(command, BindPod):
            if refused is not None and refused.status == 409 and self._is_bound_as(command):
                refused = None
            if refused is None and self._life == life:
                _note(self._confirmed, command.pod.uid, command.node)
            self._answer(self.bind_outcome(command, refused), life)
        elif isinstance(command, ClaimCommand) and command.ticket:
            self._answer(self._claims.outcome_of(command, refused), life)
        elif isinstance(command, PatchPodStatus | DeletePod | EvictPod | UpdateObject) and command.ticket:
            self._answer(outcome_of(command.ticket, refused), life)

    def bind_outcome(self, command: BindPod, refused: Refused | None) -> WriteFinished:
        """The outcome of a bind: unknown without an answer, and not conclusive while the pod can still be bound."""
        if refused is NO_ANSWER:
            return WriteFinished(command.ticket, False, 0, "", NO_ANSWER.message, is_unknown=True)
        outcome = outcome_of(command.ticket, refused)
        return msgspec.structs.replace(outcome, is_conclusive=outcome.is_done or not self._can_be_bound(command))

    def _can_be_bound(self, command: BindPod) -> bool:
        pod = self.facts.get(Kind.POD, command.pod.key)
        if pod is None or pod["metadata"]["uid"] != command.pod.uid:
            return False
        return not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]

    def _is_bound_as(self, command: BindPod) -> bool:
        pod = self.facts.get(Kind.POD, command.pod.key)
        is_same = pod is not None and pod["metadata"]["uid"] == command.pod.uid
        return is_same and pod is not None and pod["spec"].get("nodeName") == command.node

    def _do(self, command: Command) -> Refused | None:
        """Carry out a write as the API server does; returns its refusal, if any."""
        try:
            match command:
                case BindPod(pod=pod, node=node):
                    self.facts.bind(pod.key, pod.uid, node, self.time)
                    self._after_binding(pod.key, pod.uid, node)
                case PatchPodStatus(pod=pod, condition=condition, nominated_node_name=nominated):
                    stated = _stated(condition) if condition is not None else None
                    self.facts.patch_status(pod.key, pod.uid, stated, nominated)
                case PatchGroupStatus(group=group, condition=condition):
                    self.facts.patch_group_status(group.kind, group.key, group.uid, _stated(condition))
                case DeletePod(pod=pod):
                    if self.facts.delete_pod(pod.key, pod.uid, self.time):
                        self._stop_later(pod.key, pod.uid)
                case EvictPod(pod=pod):
                    if self.facts.evict_pod(pod.key, pod.uid, self.time):
                        self._stop_later(pod.key, pod.uid)
                case UpdateObject(kind=kind, key=key, changes=changes):
                    self.facts.merge(kind, key, changes)
                case command if isinstance(command, ClaimCommand):
                    self._claims.carry_out(command, self.time)
        except Refused as refusal:
            return refusal
        return None

    # --- kubelets -----------------------------------------------------------------------------------------------------

    def _after_binding(self, key: str, uid: str, node: str) -> None:
        if self.facts.get(Kind.NODE, node) is None:
            # It has no node to run on: the garbage collector deletes it.
            self._later(self.trouble.stop_seconds, f"stop {key}", lambda: self._end(key, uid))
        else:
            self._later(self.trouble.start_seconds, f"start {key}", lambda: self._start(key, uid))

    def _start(self, key: str, uid: str) -> None:
        pod = self.facts.get(Kind.POD, key)
        if pod is None or pod["metadata"]["uid"] != uid or pod["status"]["phase"] != "Pending":
            return
        self.facts.change(Kind.POD, key, lambda found: found["status"].update(phase="Running", startTime=self.time))

    def _stop_later(self, key: str, uid: str) -> None:
        self._later(self.trouble.stop_seconds, f"stop {key}", lambda: self._end(key, uid))

    def _end(self, key: str, uid: str) -> None:
        pod = self.facts.get(Kind.POD, key)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self.facts.remove(Kind.POD, key)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def pending(self) -> list[str]:
        """Keys of pods of our profiles without a node, in order of creation."""
        return [
            key
            for key, pod in self.facts.of(Kind.POD)
            if not pod["spec"].get("nodeName")
            and not is_over(pod)
            and pod["spec"]["schedulerName"] in self.engine.profiles
        ]

    def bound(self) -> dict[str, str]:
        """Pod → node, of pods that have not ended."""
        return {
            key: pod["spec"]["nodeName"]
            for key, pod in self.facts.of(Kind.POD)
            if pod["spec"].get("nodeName") and not is_over(pod)
        }

    def check(self) -> None:
        """Raise InvariantViolation unless the engine is consistent, no node is over-committed, and no pod is lost."""
        check_engine(self.engine)
        check_nodes(self.facts)
        check_devices(self.facts)
        check_volumes(self.facts)


def _stated(condition: Condition) -> Document:
    found: Document = msgspec.to_builtins(condition)
    return found


def _note(kept: OrderedDict[str, Value], key: str, value: Value) -> None:
    """Keep those that were noted last: worlds through which many pods go measure memory, and need none for these."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MAX_NOTED:
        kept.popitem(last=False)


def _key_of(document: Document) -> str:
    metadata = document["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _subject_of(command: Command) -> str:
    """What a write is about: a pod, a claim or another object."""
    if isinstance(command, BindPod | PatchPodStatus | DeletePod | EvictPod):
        return command.pod.key
    if isinstance(command, PatchGroupStatus):
        return command.group.key
    return command.key if isinstance(command, UpdateObject) else ""
