"""The engine's machines: what each claims, that none shares what it writes, and that they only speak in values."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable
from typing import get_args

from scheduler.engine import (
    binding_cycle,
    cycles,
    engine,
    failure,
    group_commit,
    group_cycle,
    group_cycles,
    group_reports,
)
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.cycles import Cycles
from scheduler.engine.deadlines import Deadline
from scheduler.engine.failure import FailureReports
from scheduler.engine.group_cycles import GroupCycles
from scheduler.engine.group_reports import GroupReports
from scheduler.engine.machine import HANDLERS, Claims, Part
from scheduler.engine.making_room import policies, room
from scheduler.engine.making_room.room import MakingRoom
from scheduler.engine.tickets import TicketOwner
from tests.engine.driver import Cluster

CLAIMS: dict[str, Claims] = {
    "handlers": HANDLERS,
    "bindings": BindingCycles.CLAIMS,
    "room": MakingRoom.CLAIMS,
    "reports": FailureReports.CLAIMS,
    "cycles": Cycles.CLAIMS,
    "group_cycles": GroupCycles.CLAIMS,
    "group_reports": GroupReports.CLAIMS,
}
"""By the engine's attribute."""

MODULES = (
    engine,
    binding_cycle,
    cycles,
    failure,
    group_commit,
    group_cycle,
    group_cycles,
    group_reports,
    room,
    policies,
)
MAX_PARAMETERS = 7


def shared_twice(claimed: Iterable[Iterable[object]]) -> list[object]:
    return [each for each, times in Counter(one for some in claimed for one in some).items() if times > 1]


def test_no_part_of_the_state_has_two_machines_that_write_it() -> None:
    assert shared_twice(claims.writes for claims in CLAIMS.values()) == []
    assert not any(claims.writes & claims.reads for claims in CLAIMS.values())


def test_every_kind_of_ticket_and_deadline_has_one_owner() -> None:
    assert shared_twice(claims.tickets for claims in CLAIMS.values()) == []
    assert shared_twice(claims.deadlines for claims in CLAIMS.values()) == []
    assert frozenset().union(*(claims.tickets for claims in CLAIMS.values())) == frozenset(get_args(TicketOwner))
    assert frozenset().union(*(claims.deadlines for claims in CLAIMS.values())) == frozenset(get_args(Deadline))


def test_each_machine_holds_only_the_parts_that_it_claims() -> None:
    made = Cluster().engine
    parts = {id(getattr(made, part.value)): part for part in Part}
    for name, claims in CLAIMS.items():
        machine = getattr(made, name)
        held = {parts[id(value)] for value in vars(machine).values() if id(value) in parts}
        assert held <= claims.reads | claims.writes, f"{name} holds {held - claims.reads - claims.writes}"


def test_the_engine_is_put_together_without_lambdas() -> None:
    for module in MODULES:
        source = inspect.getsource(module)
        assert "lambda" not in source, module.__name__


def test_no_function_of_the_engine_has_more_than_seven_parameters() -> None:
    for module in MODULES:
        for _, value in inspect.getmembers(module):
            if getattr(value, "__module__", "") != module.__name__:
                continue
            methods = [value] if inspect.isfunction(value) else []
            if inspect.isclass(value) and "__match_args__" not in vars(value):
                methods = [method for _, method in inspect.getmembers(value, inspect.isfunction)]
            for method in methods:
                count = len([name for name in inspect.signature(method).parameters if name != "self"])
                assert count <= MAX_PARAMETERS, f"{module.__name__}.{method.__qualname__} has {count}"


VERBS = {"decided", "answered", "pod_left", "due"}
NOTICES = {"budget_shown", "configure", "doubt"}
QUESTIONS = {
    "as_leaving",
    "concerned_by",
    "held_back",
    "holds_up_scheduling",
    "is_removing_for",
    "leaves_out_nodes",
    "leaving",
    "policy_of",
    "policy_of_group",
    "suspensions",
    "victims_in_flight",
}


def test_making_room_has_four_verbs_and_its_page_lists_what_else_it_is_informed_of() -> None:
    public = {name for name in vars(MakingRoom) if not name.startswith("_")} - {"CLAIMS"}
    assert public == VERBS | NOTICES | QUESTIONS
    assert room.__doc__ is not None
    table = {line.split("``")[1] for line in room.__doc__.splitlines() if line.startswith("| ``")}
    assert table == VERBS
    assert all(f"``{name}``" in room.__doc__ for name in NOTICES)


def test_two_engines_share_one_set_of_profiles() -> None:
    one, other = Cluster(), Cluster()
    other.engine.replace_profiles(one.profiles, other.engine.settings, other.now)
    one.node("n", cpu="1")
    one.pod("low", cpu="1", node="n", priority=1)
    other.node("n", cpu="1")
    other.pod("low", cpu="1", node="n", priority=1000)
    for cluster in (one, other):
        cluster.pod("high", cpu="1", priority=100)
        cluster.schedule()
    assert one.nominated("high") == "n"
    assert other.nominated("high") == ""
    one.pod("third", cpu="1", priority=200)
    other.pod("third", cpu="1", priority=2000)
    for cluster in (one, other):
        cluster.schedule()
    assert one.attempt("third").nominated_node == "n"
    assert other.attempt("third").victims == ("default/low",)
    assert one.attempt("third").victims == ("default/low",)
