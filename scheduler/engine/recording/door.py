"""The engine's door with a tape beside it: everything that passes is recorded with what it led to.

Three things change an engine, and all of them pass here: a stimulus, the request to try the next pod, and a new
configuration. The engine has no other input: time comes with each of them, chance from the source whose state is in
the first checkpoint, and what plugins of users and extenders answer comes back as stimuli.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from scheduler.engine.commands import Command
from scheduler.engine.engine import Engine
from scheduler.engine.engine_settings import EngineSettings
from scheduler.engine.recording.checkpoint import CheckpointError, Generation, pack
from scheduler.engine.recording.outcome import Outcome, outcome_of
from scheduler.framework.plugin import WaitingPod
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.stimuli import Stimulus


class NextPod(msgspec.Struct, frozen=True):
    """The request to try the next pod (``Engine.schedule_one``)."""


class StatedConfiguration(msgspec.Struct, frozen=True):
    """A configuration as text, complete: what profiles and settings are made from."""

    text: str
    gates: str = ""
    """Feature gates that differ from their defaults, as ``--feature-gates`` takes them."""


class NewConfiguration(msgspec.Struct, frozen=True):
    """A configuration that was put in force (``Engine.replace_profiles``)."""

    stated: StatedConfiguration


Input = Stimulus | NextPod | NewConfiguration


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One input with its time and its outcome."""

    input: Input
    now: Now
    outcome: Outcome


class FreshStart(msgspec.Struct, frozen=True):
    """An engine before its first input. ``chance``: the state of its source of chance."""

    started: Now
    chance: tuple[int, tuple[int, ...], float | None]


class Checkpoint(msgspec.Struct, frozen=True):
    """An engine's state (``checkpoint.pack``)."""

    state: bytes


class Beginning(msgspec.Struct, frozen=True):
    """What a part of a recording begins with. ``configurations``: one for each generation of profiles, the newest
    last. ``number``: how many inputs came before."""

    at: Now
    number: int
    configurations: tuple[StatedConfiguration, ...]
    base: FreshStart | Checkpoint


class Tape(Protocol):
    """Takes what is recorded. Nothing here may wait or raise."""

    @property
    def wants_checkpoint(self) -> bool:
        """Whether a new part is to begin."""
        ...

    def begin(self, beginning: Beginning) -> None: ...

    def put(self, entry: Entry) -> None: ...

    def failed(self, problem: str) -> None:
        """No checkpoint could be made; the part goes on."""
        ...


class RecordedEngine:
    """An engine's door, recorded. Whatever changes the engine must go through here."""

    def __init__(self, engine: Engine, stated: StatedConfiguration, tape: Tape) -> None:
        """``engine`` has had no input yet; ``stated`` is what it was made from."""
        self.engine = engine
        self._tape = tape
        self._generations = [Generation(0, engine.profiles, engine.extenders)]
        self._configurations = [stated]
        self._number = 0
        start = FreshStart(engine.started, engine.rng.getstate())  # type: ignore[arg-type]  # typed as Any-tuples
        tape.begin(Beginning(engine.started, 0, (stated,), start))

    def handle(self, stimulus: Stimulus, now: Now) -> list[Command]:
        if self._tape.wants_checkpoint:
            self._begin_part(now)
        self._number += 1
        try:
            commands = self.engine.handle(stimulus, now)
        except Exception as error:
            self._tape.put(Entry(stimulus, now, type(error).__name__))
            raise
        self._tape.put(Entry(stimulus, now, outcome_of(commands)))
        return commands

    def schedule_one(self, now: Now) -> list[Command] | None:
        if self._tape.wants_checkpoint:
            self._begin_part(now)
        self._number += 1
        try:
            commands = self.engine.schedule_one(now)
        except Exception as error:
            self._tape.put(Entry(_NEXT_POD, now, type(error).__name__))
            raise
        self._tape.put(Entry(_NEXT_POD, now, outcome_of(commands)))
        return commands

    def replace_profiles(
        self, stated: StatedConfiguration, profiles: Mapping[str, Profile], settings: EngineSettings, now: Now
    ) -> bool:
        """As ``Engine.replace_profiles``; ``stated`` is what profiles and settings were made from."""
        if not self.engine.replace_profiles(profiles, settings, now):
            return False
        self._number += 1
        self._generations.append(Generation(len(self._generations), profiles))
        self._configurations.append(stated)
        self._tape.put(Entry(NewConfiguration(stated), now, []))
        return True

    def next_deadline(self) -> float | None:
        return self.engine.next_deadline()

    def waiting_pods(self, plugin: str) -> Sequence[WaitingPod]:
        return self.engine.waiting_pods(plugin)

    def snapshot(self, now: Now) -> Beginning:
        """The state as it is. Raises CheckpointError while a cycle waits for an extender."""
        state = Checkpoint(pack(self.engine, self._generations))
        return Beginning(now, self._number, tuple(self._configurations), state)

    def _begin_part(self, now: Now) -> None:
        if self.engine.cycles.is_waiting:
            return
        try:
            self._tape.begin(self.snapshot(now))
        except CheckpointError as error:
            self._tape.failed(str(error))


_NEXT_POD = NextPod()
