"""Settings of Python's garbage collector: as little of it as is safe.

Objects of a pod are freed by reference counting; the collector finds nothing, and its walks over young objects every
few pods were 5 % of a pod's cost. It stays on for reference cycles that plugins may create.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG_OBJECTS: Final = 20_000
"""Threshold of the collector's first generation, allocations minus deallocations: some two thousand placed pods."""


def collect_seldom() -> None:
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def keep_what_is_there() -> None:
    """Exempt the objects of the first lists from collection: they stay for the life of the process."""
    gc.freeze()
