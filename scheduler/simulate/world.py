"""The engine in virtual time: a whole cluster without HTTP, whose every run follows from one seed.

The engine's commands are carried out on ``Facts`` after a delay, with the faults that ``Trouble`` injects; changes come
back as watch events, in order for each kind, each kind with its own delay. Time jumps from one event to the next: the
heap's, or the engine's own deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import ClassVar, Protocol

import msgspec

from scheduler.engine.commands import Command, RecordAttempt, RecordGroupAttempt
from scheduler.engine.engine import Engine
from scheduler.errors import InvariantViolation
from scheduler.messages.commands import (
    BindPod,
    CallExtender,
    ReportProblem,
    RunPlugin,
    StopPlugins,
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
from scheduler.objects.kinds import READ_KINDS, Kind, decode, kind_of
from scheduler.simulate.world_devices import check_devices, free_claims, make_claims
from scheduler.simulate.world_extender import Extender, extender_answer, no_extender
from scheduler.simulate.world_facts import Document, Facts, is_over
from scheduler.simulate.world_gangs import GangWatch
from scheduler.simulate.world_invariants import check_engine, check_nodes
from scheduler.simulate.world_kubelets import Kubelets
from scheduler.simulate.world_timeline import Timeline
from scheduler.simulate.world_trouble import CALM, Trouble
from scheduler.simulate.world_volumes import bind_volumes, check_volumes
from scheduler.simulate.world_writes import Writes

DECISION_SECONDS = 0.001
"""Virtual seconds of one scheduling cycle: watch events arrive in between."""

EngineFactory = Callable[[Now, int, int], Engine]
"""``factory(started, seed, configuration)``; its stopwatch must not look at a real clock. ``configuration`` is
the index of the one in force, in the run's list."""

Reloader = Callable[[Engine, int, Now], bool]
"""``reload(engine, configuration, now)`` is False while the engine can't take up another configuration."""

RELOAD_AGAIN_SECONDS = 0.05


class Door(Protocol):
    """What the world feeds: an engine, or one with a tape beside it."""

    def handle(self, stimulus: Stimulus, now: Now) -> list[Command]: ...

    def schedule_one(self, now: Now) -> list[Command] | None: ...


class World:
    """``create``, ``change`` and ``delete`` objects as users do, then ``run_for`` or ``run_until``; ``check`` whenever.

    ``trouble`` may be replaced at any time. ``journal`` has a line for each attempt that is over, ``events`` every
    Event written, ``problems`` what the engine reported for the log.
    """

    WRITES: ClassVar[type[Writes]] = Writes

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
        self.timeline = Timeline(seed, trouble)
        self.random = Random(seed)
        """For users of the world: the world itself draws nothing from it."""
        self.facts = Facts(self._changed)
        self.journal: list[str] = []
        self.events: list[WriteEvent] = []
        self.problems: list[str] = []
        self._factory = factory
        self._reload = reload
        self._extender = extender
        self._configuration = 0
        self._door_of = door_of
        self.engine = factory(self.now, seed, 0)
        self.door = door_of(self.engine)
        self._streams: dict[Kind, int] = {}
        """The number of each kind's watch; events under way in an earlier one are lost."""
        self._seen: dict[Kind, dict[str, bytes]] = {}
        """What the engine has been shown, by kind and key."""
        self._delivered_until: dict[Kind, float] = {}
        self._frees_claims = False
        self._binds_volumes = False
        self._kubelets = Kubelets(self.facts, self.timeline)
        self.writes = self.WRITES(self.facts, self.timeline, self._kubelets, self._feed)
        self._gangs = GangWatch()
        self._feed(Synced())

    @property
    def now(self) -> Now:
        return self.timeline.now

    @property
    def time(self) -> str:
        """The present time, in the format of objects."""
        return self.timeline.time

    @property
    def trouble(self) -> Trouble:
        return self.timeline.trouble

    @trouble.setter
    def trouble(self, trouble: Trouble) -> None:
        self.timeline.trouble = trouble

    # --- what users do ------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, document: Document) -> str:
        """Create an object; returns its key. Raises Refused for a name that is taken."""
        return self.facts.create(kind, document, self.time)

    def change(self, kind: Kind, key: str, edit: Callable[[Document], None]) -> None:
        self.facts.change(kind, key, edit)

    def delete(self, kind: Kind, key: str) -> None:
        """Delete an object. A pod that is bound terminates first; a node takes its pods with it."""
        if kind is Kind.POD:
            pod = self.facts.get(kind, key)
            if pod is not None and self.facts.delete_pod(key, pod["metadata"]["uid"], self.time):
                self._kubelets.stop_later(key, pod["metadata"]["uid"])
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
        """Kill the scheduler and start it again: it knows nothing but the objects; writes under way are lost."""
        self.writes.restart()
        self._gangs.restart()
        self._seen.clear()
        self.engine = self._factory(self.now, self.seed + self.writes.life, self._configuration)
        self.door = self._door_of(self.engine)
        for kind in READ_KINDS:
            self.break_watch(kind)
        self._feed(Synced())

    def reload(self, configuration: int) -> None:
        """Take up another configuration of the run's list, as soon as the engine can."""
        self._configuration = configuration
        life = self.writes.life

        def swap() -> None:
            is_newest = self._configuration == configuration and self.writes.life == life
            if is_newest and self._reload is not None and not self._reload(self.engine, configuration, self.now):
                self.timeline.at(self.timeline.monotonic + RELOAD_AGAIN_SECONDS, swap)

        swap()

    # --- time ---------------------------------------------------------------------------------------------------------

    def run_for(self, seconds: float) -> None:
        end = self.timeline.monotonic + seconds
        while self._step(end):
            pass
        self.timeline.monotonic = max(self.timeline.monotonic, end)

    def run_until(self, predicate: Callable[[], bool], seconds: float = 600.0) -> bool:
        """Run until the condition is true, or for this much virtual time; returns whether it became true."""
        end = self.timeline.monotonic + seconds
        while not predicate():
            if not self._step(end):
                return predicate()
        return True

    def _step(self, end: float) -> bool:
        """Process one event not later than ``end``; False if there is none."""
        if self.timeline.run_next():
            return True
        deadline = self.engine.next_deadline()
        if deadline is not None and deadline <= self.timeline.monotonic:
            self._feed(Tick())
            # A deadline that its Tick does not remove would stop the simulation.
            after = self.engine.next_deadline()
            if after is not None and after <= self.timeline.monotonic and not self.engine.queue.active_pods():
                raise InvariantViolation(f"deadline {after} is over, and a Tick does nothing about it")
        commands = self.door.schedule_one(self.now)
        if commands is not None:
            self._carry_out(commands)
            self._go_on()
            self.timeline.monotonic += DECISION_SECONDS
            return True
        dates = [date for date in (self.engine.next_deadline(), self.timeline.next_date) if date]
        if not dates or min(dates) > end:
            return False
        self.timeline.monotonic = max(self.timeline.monotonic, min(dates))
        return True

    # --- to the engine ------------------------------------------------------------------------------------------------

    def _feed(self, stimulus: Stimulus) -> None:
        if isinstance(stimulus, WriteFinished) and stimulus.written is not None:
            shown = self._seen.setdefault(kind_of(stimulus.written), {})
            shown.setdefault(stimulus.written.key, msgspec.json.encode(stimulus.written))
        self._gangs.fed(stimulus, self.engine, self.timeline.monotonic)
        self._carry_out(self.door.handle(stimulus, self.now))
        self._go_on()

    def _go_on(self) -> None:
        """Go on until the last input is done: as the scheduler's loop, which takes no other one before."""
        while self.engine.is_waking:
            self._carry_out(self.door.handle(WakingContinued(), self.now))

    def _changed(self, kind: Kind, document: Document, is_deleted: bool) -> None:
        """Show a change to the engine, as a watch does: later, but for each kind in order. It brings bytes, so that the
        decoder takes part."""
        if kind in (Kind.POD, Kind.RESOURCE_CLAIM):
            self._free_claims_later()
        if kind in (Kind.PERSISTENT_VOLUME, Kind.PERSISTENT_VOLUME_CLAIM):
            self._bind_volumes_later()
        body = msgspec.json.encode(document)
        wanted = self.timeline.monotonic + self.timeline.chance(f"watch {kind.value} {_key_of(document)}").uniform(
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

        self.timeline.at(date, deliver)

    def _free_claims_later(self) -> None:
        """Run the claim controller: what pods need made for them, and what they have left behind."""
        if self._frees_claims or not any(True for _ in self.facts.of(Kind.DEVICE_CLASS)):
            return
        self._frees_claims = True

        def look() -> None:
            self._frees_claims = False
            make_claims(self.facts, self.time)
            free_claims(self.facts)

        self.timeline.later(self.trouble.stop_seconds, "claims", look)

    def _bind_volumes_later(self) -> None:
        """Run the volume controller."""
        if self._binds_volumes:
            return
        self._binds_volumes = True

        def look() -> None:
            self._binds_volumes = False
            bind_volumes(self.facts, self.time)

        self.timeline.later(self.trouble.provision_seconds, "volumes", look)

    # --- from the engine ----------------------------------------------------------------------------------------------

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case RecordAttempt(attempt):
                    victims = ",".join(attempt.victims)
                    self.journal.append(
                        f"{self.timeline.monotonic:.6f} {attempt.pod} #{attempt.number} {attempt.result} "
                        f"{attempt.node} [{attempt.message}] {attempt.nominated_node} {victims}"
                    )
                case RecordGroupAttempt(attempt):
                    self.journal.append(f"{self.timeline.monotonic:.6f} group {attempt.group} {attempt.result.value}")
                case WriteEvent():
                    self.events.append(command)
                case ReportProblem(error=BaseException() as error):
                    raise error
                case ReportProblem(message):
                    self.problems.append(message)
                case CallExtender():
                    fails = self.trouble.extender_fails
                    answer = extender_answer(command, self._extender, fails, self.timeline.chance("extender"))
                    self.timeline.later(
                        self.trouble.write_seconds, "extender", partial(self.writes.answer, answer, self.writes.life)
                    )
                case RunPlugin(ticket=ticket):
                    done = PluginFinished(ticket, None)
                    self.timeline.later(
                        self.trouble.write_seconds, "plugin", partial(self.writes.answer, done, self.writes.life)
                    )
                case StopPlugins():
                    pass  # the engine ignores answers that come too late
                case _:
                    self.send(command)

    def send(self, command: Command) -> None:
        """Send a write: it arrives, is done or not, and is answered or not."""
        if isinstance(command, BindPod):
            self._gangs.sends(command, self.engine, self.timeline.monotonic)
        self.writes.send(command)

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


def _key_of(document: Document) -> str:
    metadata = document["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
