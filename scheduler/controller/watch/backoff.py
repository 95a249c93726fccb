"""Exponential back-off between retries, with jitter so that many clients do not retry at the same moment."""

from __future__ import annotations

import random


class Backoff:
    """``first`` seconds, doubled up to ``most``, each times 0.5 to 1.0 at random; ``reset`` after a success.

    The caller decides what a success is: an answer is none if the step that follows it fails at once.
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
