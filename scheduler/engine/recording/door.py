"""The engine's door with a tape beside it: everything that passes is recorded with what it led to.

Three things change an engine, and all of them pass here: a stimulus, the request to try the next pod, and a new
configuration. The engine has no other input: time comes with each of them, chance from the source whose state is in
the first checkpoint, and what plugins of users and extenders answer comes back as stimuli.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, SupportsBytes

import msgspec

from scheduler.engine.commands import Command
from scheduler.engine.engine import Engine
from scheduler.engine.engine_settings import EngineSettings
from scheduler.engine.recording.checkpoint import CheckpointError, Generation, pack
from scheduler.engine.recording.outcome import Decision, Outcome, outcome_of
from scheduler.framework.plugin_ports import WaitingPod
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.stimuli import Stimulus, WakingContinued


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
    chance: tuple[Any, ...]


class Checkpoint(msgspec.Struct, frozen=True):
    """An engine's state: what ``checkpoint.pack`` returns, or its bytes."""

    state: SupportsBytes


class Beginning(msgspec.Struct, frozen=True):
    """What a part of a recording begins with. ``configurations``: one for each generation of profiles, the newest
    last. ``number``: how many inputs came before."""

    at: Now
    number: int
    configurations: tuple[StatedConfiguration, ...]
    base: FreshStart | Checkpoint


class History:
    """What an engine was given, by one configuration after another: what a checkpoint needs beside its state."""

    __slots__ = ("configurations", "generations")

    def __init__(self, engine: Engine, stated: StatedConfiguration) -> None:
        """``stated`` is what the engine was made from."""
        self.generations = [Generation(0, engine.profiles, engine.extenders)]
        self.configurations = [stated]

    def add(self, stated: StatedConfiguration, profiles: Mapping[str, Profile]) -> None:
        """Note that ``profiles``, made from ``stated``, were put in force."""
        self.generations.append(Generation(len(self.generations), profiles))
        self.configurations.append(stated)

    def snapshot(self, engine: Engine, now: Now, number: int = 0) -> Beginning:
        """The engine's state as it is, and how many inputs led to it. Raises CheckpointError while a cycle is
        paused."""
        return Beginning(now, number, tuple(self.configurations), Checkpoint(pack(engine, self.generations)))


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
    """An engine's door, recorded. Whatever changes the engine must go through here.

    Where an attempt or a wake pauses goes by what is cached, which a checkpoint leaves out. So a pause is no part of a
    recording: an input that pauses is recorded once it is done, with all that it led to.
    """

    def __init__(self, engine: Engine, history: History, tape: Tape) -> None:
        """``engine`` has had no input yet."""
        self.engine = engine
        self._history = history
        self._tape = tape
        self._number = 0
        self._paused: tuple[Input, Now, list[Command | Decision]] | None = None
        """An input that is not done, and what it led to so far, as ``outcome_of`` says it."""
        start = FreshStart(engine.started, engine.rng.getstate())
        tape.begin(Beginning(engine.started, 0, tuple(history.configurations), start))

    def handle(self, stimulus: Stimulus, now: Now) -> list[Command]:
        if type(stimulus) is WakingContinued:
            return self._go_on(now)
        finished = self._begin_input(now)
        try:
            commands = self.engine.handle(stimulus, now)
        except Exception as error:
            self._tape.put(Entry(stimulus, now, type(error).__name__))
            raise
        self._put(stimulus, now, outcome_of(commands))
        return [*finished, *commands] if finished else commands

    def schedule_one(self, now: Now) -> list[Command] | None:
        finished = self._begin_input(now)
        try:
            commands = self.engine.schedule_one(now)
        except Exception as error:
            self._tape.put(Entry(_NEXT_POD, now, type(error).__name__))
            raise
        self._put(_NEXT_POD, now, outcome_of(commands))
        return [*finished, *(commands or ())] if finished else commands

    def _begin_input(self, now: Now) -> list[Command]:
        """The rest of what the last input leads to, if it pauses: its commands are not those of the next one."""
        finished: list[Command] = []
        while self._paused is not None:
            finished += self._go_on(now)
        if self._tape.wants_checkpoint:
            self._begin_part(now)
        self._number += 1
        return finished

    def _go_on(self, now: Now) -> list[Command]:
        paused, self._paused = self._paused, None
        try:
            commands = self.engine.handle(WakingContinued(), now)
        except Exception as error:
            if paused is not None:
                self._tape.put(Entry(paused[0], paused[1], type(error).__name__))
            raise
        if paused is not None:
            began, at, before = paused
            self._put(began, at, [*before, *(outcome_of(commands) or ())])
        return commands

    def _put(self, input_: Input, now: Now, outcome: list[Command | Decision] | None) -> None:
        if self.engine.is_waking:
            self._paused = input_, now, outcome or []
        else:
            self._tape.put(Entry(input_, now, outcome))

    def replace_profiles(
        self, stated: StatedConfiguration, profiles: Mapping[str, Profile], settings: EngineSettings, now: Now
    ) -> bool:
        """As ``Engine.replace_profiles``; ``stated`` is what profiles and settings were made from."""
        if not self.engine.replace_profiles(profiles, settings, now):
            return False
        self._number += 1
        self._history.add(stated, profiles)
        self._tape.put(Entry(NewConfiguration(stated), now, []))
        return True

    def next_deadline(self) -> float | None:
        return self.engine.next_deadline()

    @property
    def is_waking(self) -> bool:
        return self.engine.is_waking

    def waiting_pods(self, plugin: str) -> Sequence[WaitingPod]:
        return self.engine.waiting_pods(plugin)

    def _begin_part(self, now: Now) -> None:
        if self.engine.is_paused:
            return
        try:
            self._tape.begin(self._history.snapshot(self.engine, now, self._number))
        except CheckpointError as error:
            self._tape.failed(str(error))


_NEXT_POD = NextPod()
