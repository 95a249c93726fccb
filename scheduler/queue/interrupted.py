"""Wakes that are interrupted, so that thousands of waiting pods are not one long step of the event loop.

An interrupted wake changes no outcome: until it is finished, no other operation of the queue runs and nothing changes
that hints and gates read (``Engine`` sees to that), and it goes on with the time at which it began. So the queue is
then in the same state as after one step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator

Work = Generator[None, None, int]
"""Yields after each step of some 10 us; returns the number of pods moved."""

_DONE = object()


class Waking:
    """Runs pieces of work one after the other, each in slices of ``steps_a_slice`` steps; 0: each without a pause."""

    def __init__(self, steps_a_slice: int) -> None:
        self._steps_a_slice = steps_a_slice
        self.unfinished: deque[Work] = deque()
        """What has been begun and is not done, in order; read only. An attribute, since all that happens to the queue
        asks for it first."""

    def begin(self, work: Work) -> int:
        """Do the first slice of the work and return its result if that is all of it; else 0, as where other work is
        under way, behind which it waits."""
        if not self.unfinished:
            if not self._steps_a_slice:
                return _result_of(work)
            for _ in range(self._steps_a_slice):
                try:
                    next(work)
                except StopIteration as end:
                    return int(end.value)
        self.unfinished.append(work)
        return 0

    def go_on(self) -> None:
        for _ in range(self._steps_a_slice):
            if not self.unfinished:
                return
            if next(self.unfinished[0], _DONE) is _DONE:
                self.unfinished.popleft()

    def finish(self) -> None:
        while self.unfinished:
            try:
                _result_of(self.unfinished[0])
            finally:
                # Removed also if it has failed: otherwise the queue could not go on.
                self.unfinished.popleft()


def _result_of(work: Work) -> int:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return int(end.value)
