"""Memory of what is gone, in small; the whole promise is ``e2e/test_memory.py``."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.come_and_go import come_and_go

SMALL_CACHES = "{cachedClasses: 2, cachedSelectors: 20, rememberedAttempts: 50}"
"""So that they are full after the first half."""


def test_what_is_gone_leaves_nothing_behind() -> None:
    """In a process of its own: what other tests leave to the collector is not counted."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        memory = pool.submit(come_and_go, 1_400, 140, 0.5, SMALL_CACHES, counts_memos=False).result()
    assert memory.live_growth < 0.10
