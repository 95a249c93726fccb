"""Applies recorded inputs again and compares what they lead to with what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from scheduler.engine.commands import Command
from scheduler.engine.engine import Engine
from scheduler.engine.engine_settings import EngineSettings
from scheduler.engine.recording.checkpoint import Generation, unpack
from scheduler.engine.recording.door import (
    Beginning,
    Checkpoint,
    FreshStart,
    Input,
    NewConfiguration,
    NextPod,
    StatedConfiguration,
)
from scheduler.engine.recording.outcome import decisions_in, encode_outcome, outcome_of, pod_in, shown
from scheduler.extenders.extender import Extender
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.stimuli import WakingContinued


class Made(msgspec.Struct, frozen=True):
    """What a configuration's text makes."""

    profiles: Mapping[str, Profile]
    extenders: tuple[Extender, ...]
    settings: EngineSettings
    user_modules: frozenset[str] = frozenset()
    """Modules of the user plugins."""


Make = Callable[[StatedConfiguration], Made]
"""Raises ConfigurationError."""


class RecordedInput(msgspec.Struct, frozen=True):
    """An input as it is read from a recording, with its outcome encoded. ``number`` counts from 1 since the start."""

    number: int
    input: Input
    now: Now
    outcome: bytes


class Difference(msgspec.Struct, frozen=True):
    """The first input that led to something else."""

    number: int
    now: Now
    input: str
    pod: str
    """namespace/name; "" where the input is about no pod."""
    expected: Any
    """What is recorded: plain values."""
    got: Any


def zero() -> float:
    """A stopwatch that measures nothing: durations feed no decision."""
    return 0.0


def source_of_chance(start: FreshStart) -> Random:
    """The source as it was at the start. Raises ValueError for a state that is none."""
    rng = Random()
    try:
        version, numbers, gauss = start.chance
        rng.setstate((version, tuple(numbers), gauss))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"the state of chance: {error}") from error
    return rng


class Replay:
    """An engine that is fed from a recording: ``begin`` once, then ``apply`` each input in order."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self.number = 0
        """Inputs so far, those before the beginning included."""
        self.applied = 0
        self.decisions = 0
        self.attempted: tuple[str, ...] = ()
        """Pods that the last input led to attempts at."""
        self.outcome = b""
        """What the last input led to, encoded."""
        self.commands: Sequence[Command] = ()
        """What the last input led to."""
        self.last: Now | None = None
        self.made: list[Made] = []
        """What the configurations so far made."""
        self.generations: list[Generation] = []
        """What the checkpoint that it began with needs beside its state; none for a fresh start."""
        self.engine: Engine

    def begin(self, beginning: Beginning, instead: Made | None = None) -> None:
        """Make the engine of this beginning. ``instead``: what takes the place of the recorded configuration. Raises
        ConfigurationError and CheckpointError."""
        self.made = made = [self._make(stated) for stated in beginning.configurations]
        newest, self.last, self.number = made[-1], beginning.at, beginning.number
        if isinstance(beginning.base, Checkpoint):
            self.generations = [
                Generation(number, one.profiles, one.extenders if number == 0 else ())
                for number, one in enumerate(made)
            ]
            modules = frozenset[str]().union(*[one.user_modules for one in made])
            self.engine = unpack(bytes(beginning.base.state), self.generations, zero, modules)
            if instead is not None:
                self.engine.replace_profiles(instead.profiles, instead.settings, beginning.at)
            return
        newest = instead or newest
        self.engine = Engine(
            newest.profiles,
            started=beginning.base.started,
            rng=source_of_chance(beginning.base),
            stopwatch=zero,
            extenders=newest.extenders,
            settings=newest.settings,
        )

    def apply(self, recorded: RecordedInput) -> Difference | None:
        """Apply one input; returns the difference if it led to something else than recorded. Raises ConfigurationError
        for a recorded configuration that is not valid here."""
        self.outcome = got = self._outcome(recorded)
        self.number, self.applied, self.last = recorded.number, self.applied + 1, recorded.now
        self.attempted = tuple([decision.pod for decision in decisions_in(got)])
        self.decisions += len(self.attempted)
        if got == recorded.outcome:
            return None
        return Difference(
            recorded.number,
            recorded.now,
            type(recorded.input).__name__,
            pod_in(recorded.outcome) or pod_in(got),
            shown(recorded.outcome),
            shown(got),
        )

    def _outcome(self, recorded: RecordedInput) -> bytes:
        input_, now = recorded.input, recorded.now
        self.commands = ()
        if isinstance(input_, NewConfiguration):
            made = self._make(input_.stated)
            self.made.append(made)
            is_taken = self.engine.replace_profiles(made.profiles, made.settings, now)
            return encode_outcome([] if is_taken else "refused")
        try:
            if isinstance(input_, NextPod):
                commands = self.engine.schedule_one(now)
            else:
                commands = self.engine.handle(input_, now)
            while self.engine.is_waking:
                commands = [*(commands or ()), *self.engine.handle(WakingContinued(), now)]
            self.commands = commands or ()
            return encode_outcome(outcome_of(commands))
        except Exception as error:  # noqa: BLE001 - as in the scheduler's loop: its name is the outcome
            return encode_outcome(type(error).__name__)
