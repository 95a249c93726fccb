"""Recordings kept in memory, as bytes, and how they are replayed."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.cli.recorded import Maker, stated_of
from scheduler.compose import build_engine, build_profiles, engine_settings
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import load
from scheduler.engine.engine import Engine
from scheduler.engine.recording.door import Beginning, Entry, History, RecordedEngine
from scheduler.engine.recording.entries import decode_beginning, decode_entry, encode_beginning, encode_entry
from scheduler.engine.recording.replay import Difference, Make, RecordedInput, Replay
from scheduler.messages.now import Now
from scheduler.simulate.world import World
from scheduler.simulate.world_extender import Extender, no_extender
from scheduler.simulate.world_trouble import CALM, Trouble
from scheduler.user_plugins.loading import PluginClasses


@dataclass
class Part:
    """From one beginning to the next."""

    head: bytes
    state: bytes
    number: int
    entries: list[bytes] = field(default_factory=list)


@dataclass
class MemoryTape:
    """One life of a scheduler. A new part begins after ``entries_a_part`` entries."""

    entries_a_part: int = 10**9
    parts: list[Part] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def wants_checkpoint(self) -> bool:
        return len(self.parts[-1].entries) >= self.entries_a_part

    def begin(self, beginning: Beginning) -> None:
        self.parts.append(Part(*encode_beginning(beginning), beginning.number))

    def put(self, entry: Entry) -> None:
        self.parts[-1].entries.append(encode_entry(entry))

    def inputs(self) -> list[RecordedInput]:
        """All that was recorded."""
        return [decode_entry(data, 0) for part in self.parts for data in part.entries]

    def failed(self, problem: str) -> None:
        self.problems.append(problem)


class Tapes:
    """Records every life of a simulated cluster's scheduler, which is given these configurations in turn."""

    def __init__(self, *texts: str, entries_a_part: int = 10**9, gates: str = "") -> None:
        self.entries_a_part = entries_a_part
        self.lives: list[MemoryTape] = []
        self.doors: list[RecordedEngine] = []
        self._configurations = [load(text or None, gates=parse_feature_gates(gates)) for text in texts or ("",)]
        self._stated = [stated_of(each) for each in self._configurations]
        self._first = 0

    def world(self, seed: int, trouble: Trouble = CALM, extender: Extender = no_extender) -> World:
        return World(seed, self.engine, trouble, reload=self.reload, extender=extender, door_of=self.door_of)

    def engine(self, started: Now, seed: int, configuration: int) -> Engine:
        self._first = configuration
        chosen = self._configurations[configuration]
        return build_engine(chosen, started=started, seed=seed, stopwatch=lambda: 0.0)

    def door_of(self, engine: Engine) -> RecordedEngine:
        self.lives.append(MemoryTape(self.entries_a_part))
        self.doors.append(RecordedEngine(engine, History(engine, self._stated[self._first]), self.lives[-1]))
        return self.doors[-1]

    def reload(self, _engine: Engine, configuration: int, now: Now) -> bool:
        chosen = self._configurations[configuration]
        made = build_profiles(chosen)
        return self.doors[-1].replace_profiles(self._stated[configuration], made, engine_settings(chosen), now)

    def check_parts(self) -> int:
        """Replays each life from its start and from some of its checkpoints; the number of decisions made again.

        Each of those replays ends the life, so that a checkpoint is judged by all that comes after it.
        """
        decisions = 0
        for life in self.lives:
            assert life.problems == []
            for place in range(0, len(life.parts), 1 + len(life.parts) // 4):
                replay, difference = replay_of(life.parts[place:])
                assert difference is None, difference
                decisions += replay.decisions
        return decisions


def replay_of(parts: list[Part], make: Make | None = None) -> tuple[Replay, Difference | None]:
    """Replays from the first of these parts on; the replay, and the first difference."""
    replay = Replay(make or Maker(PluginClasses()))
    replay.begin(decode_beginning(parts[0].head, parts[0].state))
    for part in parts:
        for place, data in enumerate(part.entries, start=1):
            difference = replay.apply(decode_entry(data, part.number + place))
            if difference is not None:
                return replay, difference
    return replay, None
