"""Settings of Python's garbage collector: as little of it as is safe, and no pause that can be felt.

Objects of a pod are freed by reference counting; the collector finds nothing, and its walks over young objects every
few pods were 5 % of a pod's cost. It stays on for reference cycles that plugins may create. A walk takes 0.5 to 1 µs an
object, during which nothing else happens; so what has outlived two walks is exempted from them, and all of it is
walked over only when memory has doubled.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

from scheduler.controller.memory import InUse, give_back

STARTING_OBJECTS: Final = 2_000_000
"""Threshold of the collector's first generation until the first lists are there: nearly all of what comes stays. That
many are never there before, unless the lists don't come."""
YOUNG_OBJECTS: Final = 2_000
"""The same afterwards, allocations minus deallocations. Where as many old objects go as new ones come, as while pods
are placed that have long waited, that says nothing of the number of young ones; so ``SLICES_A_WALK`` is there."""
YOUNG_WALKS: Final = 1
"""Walks over the first generation for each one over the second, which takes 3 to 5 ms."""
SLICES_A_WALK: Final = 16
"""Slices of the loop from one walk over young objects to the next: some 300 plain pods where many wait."""
WALKS_BEFORE_A_LOOK: Final = 10
"""Walks over the second generation before free memory is given back, which takes less than 1 ms in most cases, and
before memory is measured, which waits for an idle moment. That took 0.1 ms in processes of 120 and 200 MiB, and grows
with memory."""
MAX_WALKS_BEFORE_A_LOOK: Final = 1_000
"""The same without an idle moment: a minute of nothing but work."""


def collect_seldom() -> None:
    """Let the collector walk seldom: for commands, and for the scheduler's start."""
    gc.set_threshold(STARTING_OBJECTS, *gc.get_threshold()[1:])


def keep_what_is_there() -> None:
    """Exempt the objects of the first lists from collection. From now on pauses are short, and old objects are left to
    ``Collector``."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_WALKS, MAX_WALKS_BEFORE_A_LOOK)


def _keeps_what_is_there() -> bool:
    return gc.get_threshold()[2] == MAX_WALKS_BEFORE_A_LOOK


class Collector:
    """Walks over young objects, exempts old ones, and collects those in cycles where memory has doubled: what cycles
    leave behind is at most as much as there was.

    What is in use at the first idle moment, once the pods that waited for the start are placed, is what the first
    growth is measured against.
    """

    def __init__(self, in_use: Callable[[], InUse] = InUse.now, give_back: Callable[[], None] = give_back) -> None:
        self._in_use = in_use
        self._give_back = give_back
        self._kept: InUse | None = None
        """After the last walk over all objects. None: there was no idle moment yet."""
        self._slices = 0
        """Since the last walk over both young generations."""
        self._walks = 0
        """Over both young generations, since memory was last measured."""

    def after_slice(self) -> None:
        """Walk over young objects where that is due, and exempt those that have outlived two walks. Now and then, give
        free memory back to the system."""
        self._slices += 1
        if self._slices % SLICES_A_WALK or not _keeps_what_is_there():
            return
        if self._slices == SLICES_A_WALK:
            gc.collect(0)
            return
        self._slices = 0
        gc.collect(1)
        gc.freeze()
        self._walks += 1
        if self._walks % WALKS_BEFORE_A_LOOK == 0:
            self._give_back()
        if self._walks >= MAX_WALKS_BEFORE_A_LOOK:
            self._look()

    def when_idle(self) -> None:
        """Collect all generations where that is due."""
        if (self._walks >= WALKS_BEFORE_A_LOOK or self._kept is None) and _keeps_what_is_there():
            self._look()

    def _look(self) -> None:
        self._walks = 0
        in_use = self._in_use()
        if self._kept is None:
            self._kept = in_use
        elif in_use.has_doubled_since(self._kept):
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._kept = self._in_use()
