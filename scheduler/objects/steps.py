"""Work that pauses, so that one pod's search is not one long step of the event loop.

A piece of work is a generator that yields where it may pause. Where it does is decided by what it has done, not by a
clock: a test of it says the same on each machine.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, Never, TypeVar

Result = TypeVar("Result")
Yielded = TypeVar("Yielded")

Steps = Generator[None, None, Result]

STEPS_A_SLICE = 400
"""A step of the search for devices takes 5 to 50 µs, so a slice takes 2 to 20 ms."""


class Pace:
    """How much of a slice is left. ``slices`` counts those that are over."""

    __slots__ = ("_size", "left", "slices")

    def __init__(self, steps_a_slice: int = STEPS_A_SLICE) -> None:
        self._size = self.left = steps_a_slice
        self.slices = 0

    @property
    def is_over(self) -> bool:
        return self.left <= 0

    def pause(self) -> Steps[None]:
        """Pause where the slice is over; then the next one begins."""
        if self.left <= 0:
            self.left = self._size
            self.slices += 1
            yield


def run_to_end(steps: Generator[object, None, Result]) -> Result:
    """The result of all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result


class Ended(Generic[Yielded, Result]):
    """What a generator yields, for a ``for`` loop; ``result`` is what it has returned when the loop is over."""

    __slots__ = ("_steps", "result")

    def __init__(self, steps: Generator[Yielded, Never, Result]) -> None:
        self._steps = steps

    def __iter__(self) -> Generator[Yielded, None, None]:
        self.result = yield from self._steps


def signalling(steps: Generator[object, None, Result], signal: Yielded) -> Generator[Yielded, object, Result]:
    """The same steps, which yield ``signal`` at each pause."""
    ended = Ended(steps)
    for _ in ended:
        yield signal
    return ended.result
