"""What would help, as values ready for JSON, and the bounds of the search for it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

import msgspec

from scheduler.engine.questions.answers import SECONDS, STEPS
from scheduler.engine.questions.changes import Effort, Values

MAX_TRIALS: Final = 400
MAX_OF_A_KIND: Final = 10
"""Taints, cordoned nodes, kinds of nodes and the like that are tried, the most frequent first."""

Found = TypeVar("Found")
Value = TypeVar("Value")


class Help(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A change with which the pod fits, or its group."""

    change: str
    """The kind of change, such as ``resource``."""
    text: str
    node: str
    """Where the pod would go; of a group, the node that gets most of its pods."""
    allowed_count: int = 0
    pod: str = ""
    """The pod that goes or is moved."""
    moves_to: str = ""
    victims: tuple[str, ...] = ()
    hidden_victims: int = 0
    nodes: dict[str, int] = msgspec.field(default_factory=dict)
    """Of a group: the nodes that get pods, and how many; those with most pods first, at most MAX_NODES_NAMED."""
    placed: int = 0
    """Of a group: the number of its waiting pods that would get a node."""


class Helps(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to what would help a pod or a group."""

    pod: str
    """namespace/name of the pod; "" if a group was asked about."""
    message: str = ""
    """Why it waits."""
    fits_now: str = ""
    """The node on which it fits already."""
    helps: tuple[Help, ...] = ()
    values: tuple[Values, ...] = ()
    """What it wants of nodes and what they have."""
    hidden: int = 0
    """Changes that concern pods of namespaces whose pods the asker may not list."""
    trials: int = 0
    bound: str = ""
    """The bound that ended the search, "" if it is complete."""
    group: str = ""
    """namespace/name of the group that is asked about, or with which the pod starts; "" for a pod by itself."""
    unasked_extenders: tuple[str, ...] = ()
    """The extenders that have a say in where the pod goes: no trial asks them."""


class HelpList:
    """The changes that were found, to be shown in the order of their effort and, within it, of their size."""

    def __init__(self) -> None:
        self._found: list[tuple[tuple[int, float], Help]] = []

    def add(self, effort: Effort, size: float, found: Help) -> None:
        self._found.append(((effort, size), found))

    @property
    def in_order(self) -> tuple[Help, ...]:
        return tuple([one for _, one in sorted(self._found, key=lambda pair: pair[0])])


class Bounds:
    """Counts trials, and says when there have been enough of them, or the time is up."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.trials = 0
        self.bound = ""
        """The bound that was reached, "" for none."""
        self._is_over = is_over

    @property
    def is_reached(self) -> bool:
        if not self.bound:
            if self.trials >= MAX_TRIALS:
                self.bound = STEPS
            elif self._is_over():
                self.bound = SECONDS
        return bool(self.bound)

    def last_that(
        self, values: Sequence[Value], holds: Callable[[Value], Generator[None, None, Found | None]]
    ) -> Generator[None, None, tuple[Value, Found] | None]:
        """The last value for which it holds, and what was found with it, where it holds for all values before; None if
        for none. The first value is tried first."""
        low, high, best = 0, len(values), None
        while low < high and not self.is_reached:
            middle = 0 if best is None and low == 0 else (low + high) // 2
            found = yield from holds(values[middle])
            yield
            if found is None:
                high = middle
            else:
                best, low = (values[middle], found), middle + 1
        return best
