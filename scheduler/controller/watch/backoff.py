"""Waits between tries that grow, with chance in them so that many clients do not come back at the same moment."""

from __future__ import annotations

import random


class Backoff:
    """``first`` seconds, doubled up to ``most``, each times 0.5 to 1.0 at random; ``reset`` after a success.

    What counts as a success is the caller's to say: an answer is none where what follows from it fails at once.
    """

    def __init__(self, first: float = 0.8, most: float = 30.0, rng: random.Random | None = None) -> None:
        self._first = first
        self._most = most
        self._next = first
        self._rng = rng or random.Random()

    def reset(self) -> None:
        self._next = self._first

    def next_seconds(self) -> float:
        wait, self._next = self._next, min(self._next * 2, self._most)
        return wait * self._rng.uniform(0.5, 1.0)
