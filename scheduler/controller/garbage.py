"""Settings of Python's garbage collector: as little of it as is safe, and no pause that can be felt.

Objects of a pod are freed by reference counting; the collector finds nothing, and its walks over young objects every
few pods were 5 % of a pod's cost. It stays on for reference cycles that plugins may create. A walk takes 0.5 µs an
object, during which nothing else happens.
"""

from __future__ import annotations

import gc
from typing import Final

STARTING_OBJECTS: Final = 100_000
"""Threshold of the collector's first generation until the first lists are there: nearly all of what comes stays."""
YOUNG_OBJECTS: Final = 3_000
"""The same afterwards, allocations minus deallocations: some 500 placed pods, and a pause of 1 to 2 ms."""
YOUNG_WALKS: Final = 1
"""Walks over the first generation for each one over the second: one of some 9,000 objects."""
MIDDLE_WALKS: Final = 10
"""Walks over the second generation before one over all others is due, which waits for an idle moment."""
MAX_MIDDLE_WALKS: Final = 1_000
"""The same without an idle moment: some six million more objects."""
GROWTH: Final = 4
"""A walk over all objects is due when there are a quarter more: each then costs as much as an object's making."""


def collect_seldom() -> None:
    """For commands, and for the start."""
    gc.set_threshold(STARTING_OBJECTS, *gc.get_threshold()[1:])


def keep_what_is_there() -> None:
    """Exempt the objects of the first lists from collection: they stay for the life of the process. From now on pauses
    are short, and old objects are left to ``OldObjects``."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_WALKS, MAX_MIDDLE_WALKS)


class OldObjects:
    """Collects old objects when there is nothing else to do."""

    def __init__(self) -> None:
        self._walks = 0
        """Over the second generation, until all objects were last walked over: their number, in thousands."""

    def collect(self) -> None:
        """Collect all generations where that is due."""
        walks = gc.get_count()[2]
        if gc.get_threshold()[2] == MAX_MIDDLE_WALKS and walks >= max(MIDDLE_WALKS, self._walks // GROWTH):
            self._walks += walks
            gc.collect()
