"""The tables of states: the pages show them as they are, and nothing moves in another way."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from scheduler.engine.binding import BINDING_MOVES, Binding, BindingState
from scheduler.engine.making_room.preemptor import Preemptor
from scheduler.engine.making_room.removal import REMOVAL_MOVES, Removal, RemovalState
from scheduler.errors import InvariantViolation
from tests.engine.driver import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def picture(moves: dict[tuple[Any, Any], str], start: Enum) -> str:
    """A Mermaid diagram of the table."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {start.value}"]
    lines += [f"    {old.value} --> {new.value}: {why}" for (old, new), why in moves.items()]
    ends = {new for _, new in moves} - {old for old, _ in moves}
    lines += [f"    {end.value} --> [*]" for end in sorted(ends, key=lambda end: str(end.value))]
    return "\n".join([*lines, "```"])


@pytest.mark.parametrize(
    ("moves", "start"),
    [(BINDING_MOVES, BindingState.STARTED), (REMOVAL_MOVES, RemovalState.FIRST_VICTIMS)],
    ids=["bindings", "removals"],
)
def test_the_page_shows_the_table(moves: dict[tuple[Any, Any], str], start: Enum) -> None:
    assert picture(moves, start) in PAGE.read_text(), f"docs/states.md should have\n{picture(moves, start)}"


def test_every_state_can_be_reached() -> None:
    for moves, start in ((BINDING_MOVES, BindingState.STARTED), (REMOVAL_MOVES, RemovalState.FIRST_VICTIMS)):
        reached = {new for _, new in moves} | {start}
        assert reached == set(type(start))


def test_any_other_move_is_a_bug() -> None:
    cluster = Cluster()
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    (binding,) = cluster.engine.bindings.under_way
    assert isinstance(binding, Binding)
    with pytest.raises(InvariantViolation, match="can't go from Binding to PermitWait"):
        binding.become(BindingState.PERMIT_WAIT)
    removal = Removal(Preemptor("a", (cluster.info("a"),), ("n",)), (), cluster.info("b"), 0.0)
    with pytest.raises(InvariantViolation, match="can't go from FirstVictims to Dying"):
        removal.become(RemovalState.DYING)
