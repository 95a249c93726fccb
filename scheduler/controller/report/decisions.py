"""The newest decisions, for the pages: what was decided about which pod, in short."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.engine.attempt import Attempt
from scheduler.objects.timestamps import format_seconds

MAX_DECISIONS: Final = 1_000
MAX_MESSAGE_CHARACTERS: Final = 500
MAX_NAMED: Final = 10
"""Plugins, and victims, that a decision names."""


class Decision(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``number`` grows by 1 with each decision since the start."""

    number: int
    at: str
    pod: str
    result: str
    profile: str = ""
    node: str = ""
    nominated_node: str = ""
    message: str = ""
    rejected_by: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    victim_count: int = 0
    nodes: int = 0
    feasible_nodes: int = 0
    attempt: int = 1
    milliseconds: float = 0.0


class Decisions:
    """The last ``MAX_DECISIONS`` ones: at most 2 MB."""

    def __init__(self) -> None:
        self._newest: deque[Decision] = deque(maxlen=MAX_DECISIONS)
        self.last = 0
        """The number of the last decision."""

    def observe(self, attempt: Attempt) -> None:
        """A recorder of attempts."""
        self.last += 1
        self._newest.append(
            Decision(
                self.last,
                format_seconds(attempt.started_wall),
                attempt.pod,
                attempt.result,
                attempt.scheduler_name,
                attempt.node,
                attempt.nominated_node,
                attempt.message[:MAX_MESSAGE_CHARACTERS],
                attempt.rejectors[:MAX_NAMED],
                attempt.victims[:MAX_NAMED],
                len(attempt.victims),
                attempt.total_nodes,
                attempt.feasible_nodes,
                attempt.number,
                round(1e3 * sum(attempt.durations.values()), 2),
            )
        )

    def after(self, number: int, limit: int) -> tuple[Sequence[Decision], int]:
        """The newest decisions after a number, the oldest first, at most ``limit``; and how many older ones were left
        out."""
        count = max(min(self.last - number, self.last), 0)
        listed = min(count, limit, len(self._newest))
        start = len(self._newest) - listed
        return [self._newest[at] for at in range(start, len(self._newest))], count - listed
