"""Recordings kept in memory, as bytes, and how they are replayed."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.cli.recorded import Maker, stated_of
from scheduler.config.loading import load
from scheduler.engine.engine import Engine
from scheduler.engine.recording.door import Beginning, Entry, History, RecordedEngine
from scheduler.engine.recording.entries import decode_beginning, decode_entry, encode_beginning, encode_entry
from scheduler.engine.recording.replay import Difference, Make, Replay
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

    def failed(self, problem: str) -> None:
        self.problems.append(problem)


class Tapes:
    """Records every life of a world's scheduler: ``door_of`` for the world."""

    def __init__(self, text: str = "", entries_a_part: int = 10**9) -> None:
        self.text = text
        self.entries_a_part = entries_a_part
        self.lives: list[MemoryTape] = []
        self.doors: list[RecordedEngine] = []

    def door_of(self, engine: Engine) -> RecordedEngine:
        self.lives.append(MemoryTape(self.entries_a_part))
        self.doors.append(RecordedEngine(engine, History(engine, stated_of(load(self.text or None))), self.lives[-1]))
        return self.doors[-1]


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
