"""Shrinking: the shortest part of a failing script that still fails, by leaving out ever smaller pieces (ddmin)."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.simulate.changes import Step

Fails = Callable[[Sequence[Step]], bool]

MAX_RUNS = 2_000
"""Runs of the simulation at most; after that, the shortest failing script so far is the answer."""


_VARIABLE = re.compile(r"\S*[\d/]\S*|'[^']*'")
"""Words that name an object or an amount."""


@dataclass(frozen=True, slots=True)
class FailureKind:
    """What a failure and a shorter form of it have in common: the exception, where it is raised, and its message
    without the objects and amounts in it. A shorter script has other objects, and passes elsewhere on its way."""

    exception: str
    function: str
    line: int
    message: str


def kind_of(error: Exception) -> FailureKind:
    """The kind of failure of an exception that was raised and caught."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    message = re.sub(r"\[.*\]", "", _VARIABLE.sub("", str(error)))
    return FailureKind(type(error).__qualname__, innermost.name, innermost.lineno or 0, " ".join(message.split()))


def shrink(script: Sequence[Step], fails: Fails, max_runs: int = MAX_RUNS) -> list[Step]:
    """The shortest failing script that leaving out pieces leads to. ``fails(script)`` must be true at the start.

    Within ``max_runs`` no single step of the answer can be left out any more."""
    found = list(script)
    pieces = 2
    while len(found) > 1:
        size = -(-len(found) // pieces)
        for start in range(0, len(found), size):
            if max_runs <= 0:
                return found
            max_runs -= 1
            shorter = found[:start] + found[start + size :]
            if fails(shorter):
                found = shorter
                pieces = max(pieces - 1, 2)
                break
        else:
            if size == 1:
                return found
            pieces = min(2 * pieces, len(found))
    return found
