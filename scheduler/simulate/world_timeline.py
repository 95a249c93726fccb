"""Virtual time and chance: what happens when, and the trouble that chance makes."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from random import Random
from typing import TypeVar

from scheduler.messages.now import Now
from scheduler.objects.timestamps import format_seconds
from scheduler.simulate.world_trouble import Range, Trouble

START_MONOTONIC = 1_000.0
START_WALL = 1_800_000_000 * 10**9

MAX_NOTED = 10_000
"""Subjects of chance, and bindings, that are remembered: many times what is alive in any run."""

Value = TypeVar("Value")


class Timeline:
    """``monotonic`` in virtual seconds. ``trouble`` may be replaced at any time."""

    def __init__(self, seed: int, trouble: Trouble) -> None:
        self.seed = seed
        self.trouble = trouble
        self.monotonic = START_MONOTONIC
        self._drawn: OrderedDict[str, int] = OrderedDict()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0

    @property
    def now(self) -> Now:
        return Now(self.monotonic, START_WALL + round((self.monotonic - START_MONOTONIC) * 1e9))

    @property
    def time(self) -> str:
        """The present time, in the format of objects."""
        return format_seconds(self.now.wall)

    @property
    def next_date(self) -> float | None:
        """The virtual second of the next event; None without one."""
        return self._heap[0][0] if self._heap else None

    def run_next(self) -> bool:
        """Run the next event if it is due; returns whether there was one."""
        if not self._heap or self._heap[0][0] > self.monotonic:
            return False
        heapq.heappop(self._heap)[2]()
        return True

    def chance(self, subject: str) -> Random:
        """Chance of its own for each subject and each time that it is asked for: what is drawn for one write does not
        depend on how many others there were, so that a script from which steps are left out stays much the same."""
        number = self._drawn.get(subject, 0) + 1
        note(self._drawn, subject, number)
        return Random(f"{self.seed} {subject} {number}")

    def later(self, bounds: Range, subject: str, what: Callable[[], None]) -> None:
        """After a delay between the bounds, in seconds."""
        self.at(self.monotonic + self.chance(subject).uniform(*bounds), what)

    def at(self, date: float, what: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (date, self._sequence, what))


def note(kept: OrderedDict[str, Value], key: str, value: Value) -> None:
    """Keep those that were noted last: worlds through which many pods go measure memory, and need none for these."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MAX_NOTED:
        kept.popitem(last=False)
