"""The garbage collector's part in it: as small as is safe.

What a pod leaves behind is kept or freed by its count of references; the collector finds nothing, and walking the young
objects every few pods was a twentieth of what a pod costs. It stays for cycles that plugins may make.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG_OBJECTS: Final = 20_000
"""Threshold of the collector's first generation, allocations minus deallocations: some two thousand placed pods."""


def collect_seldom() -> None:
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def keep_what_is_there() -> None:
    """What the first lists brought stays: the collector need not walk it again and again."""
    gc.freeze()
