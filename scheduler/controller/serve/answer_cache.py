"""Caches answers of the API server for a few seconds, so that scrapes and floods do not cause a request each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class AnswerCache(Generic[Key, Answer]):
    """Holds at most ``limit`` answers, evicting the oldest; each has its own lifetime, in seconds of ``clock``."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._answers: OrderedDict[Key, tuple[float, Answer]] = OrderedDict()

    def get(self, key: Key) -> Answer | None:
        """The stored answer; None if there is none or its life is over."""
        found = self._answers.get(key)
        if found is None:
            return None
        until, answer = found
        if self._clock() >= until:
            del self._answers[key]
            return None
        return answer

    def put(self, key: Key, answer: Answer, life: float) -> None:
        """Stores an answer for ``life`` seconds; 0 stores nothing."""
        self._answers.pop(key, None)
        if life > 0:
            self._answers[key] = (self._clock() + life, answer)
            while len(self._answers) > self._limit:
                self._answers.popitem(last=False)

    def __len__(self) -> int:
        return len(self._answers)
