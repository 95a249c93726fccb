"""The removal of one preemptor's victims: its states and the table of their transitions."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct, field

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.making_room.preemptor import Preemptor
from scheduler.errors import InvariantViolation


class RemovalState(Enum):
    FIRST_VICTIMS = "FirstVictims"
    """Removes all victims but the last, concurrently."""
    LAST_VICTIM = "LastVictim"
    DYING = "Dying"
    """No further write is needed; victims still terminate."""
    OVER = "Over"

    __hash__ = object.__hash__


REMOVAL_MOVES: Final[dict[tuple[RemovalState, RemovalState], str]] = {
    (RemovalState.FIRST_VICTIMS, RemovalState.LAST_VICTIM): "all but the last are granted, gone or cancelled",
    (RemovalState.FIRST_VICTIMS, RemovalState.OVER): "a victim was refused, or the preemptor no longer waits",
    (RemovalState.LAST_VICTIM, RemovalState.DYING): "it is granted, and victims still terminate",
    (RemovalState.LAST_VICTIM, RemovalState.OVER): "it was refused, no victim is left, or others were chosen",
    (RemovalState.DYING, RemovalState.OVER): "the last victim is gone; or the preemptor is, or removes others",
}
"""From and to, with the cause. No other transition is possible. At the end the preemptor is tried."""


class Removal(Struct, eq=False):
    """The removal of one preemptor's victims, from the first write until the last victim is gone. ``last``: the victim
    that is removed after all others. ``started``: monotonic seconds."""

    preemptor: Preemptor
    victims: tuple[PodInfo, ...]
    last: PodInfo
    started: float
    state: RemovalState = RemovalState.FIRST_VICTIMS
    outstanding: dict[str, PodInfo] = field(default_factory=dict)
    """Victims that need a further write or answer, by UID."""
    has_failed: bool = False
    is_overtaken: bool = False
    """The preemptor has been tried again meanwhile, and wants other victims: it is tried when this removal ends."""
    refused_on: dict[str, None] = field(default_factory=dict)
    """Nodes of victims that the API server refused to evict."""

    @property
    def is_at_last(self) -> bool:
        return self.state is RemovalState.LAST_VICTIM

    def become(self, state: RemovalState) -> None:
        """Change the state. Raises InvariantViolation for a change that is not in the table."""
        if (self.state, state) not in REMOVAL_MOVES:
            raise InvariantViolation(
                f"removal for {self.preemptor.key} can't go from {self.state.value} to {state.value}"
            )
        self.state = state
