"""A decision costs no step of Python for each node: what is counted are the lines that it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from scheduler.engine.engine import Engine
from scheduler.objects.kinds import kind_of
from tests.benchmarks.clusters import engine_with, now
from tests.benchmarks.kinds import REQUESTS, add, observe
from tests.benchmarks.requests import Request

FEW, MANY = 100, 5_000
SLACK = 60
"""Lines that searches in sorted lists and growing columns may take more: far below one for each node."""


@pytest.fixture(scope="module")
def engine_of() -> Callable[[int], Engine]:
    engines: dict[int, Engine] = {}

    def engine(nodes: int) -> Engine:
        if nodes not in engines:
            engines[nodes] = engine_with(nodes, allocatable={"example.com/gpu": "1000", "ephemeral-storage": "100Gi"})
        return engines[nodes]

    return engine


class Lines:
    def __init__(self) -> None:
        self.count = 0

    def trace(self, _frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        self.count += event == "line"
        return self.trace


@contextmanager
def counted() -> Iterator[Lines]:
    """Counts the lines that the interpreter comes to: each turn of a loop or a comprehension is one at least."""
    lines = Lines()
    before = sys.gettrace()
    sys.settrace(lines.trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def lines_of_a_decision(engine: Engine, request: Request, nodes: int, first: int) -> int:
    """The fewest of several pods of its kind: what is made once for all that follow is not counted."""
    shared = request.shared(nodes)
    observe(engine, shared)
    numbers = range(first, first + 6)
    for number in numbers:
        add(engine, request, number)
    found = []
    for _ in numbers:
        with counted() as lines:
            assert engine.schedule_one(now())
        found.append(lines.count)
    for number in numbers:
        placed = engine.cache.remove_pod(f"uid-new-{number}")
        assert placed is not None, "the pod was refused: the measurement would be of something else"
        for each in request.own(number):
            engine.cache.remove_object(kind_of(each), each.key)
    for each in shared:
        engine.cache.remove_object(kind_of(each), each.key)
    return min(found)


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_decision_runs_as_many_lines_among_many_nodes_as_among_few(
    engine_of: Callable[[int], Engine], kind: str
) -> None:
    # Each kind has pods of its own: the engines are shared.
    first = 1 + 10 * list(REQUESTS).index(kind)
    few, many = (lines_of_a_decision(engine_of(nodes), REQUESTS[kind], nodes, first) for nodes in (FEW, MANY))
    assert many <= few + SLACK


def test_a_loop_over_rows_would_be_seen(engine_of: Callable[[int], Engine]) -> None:
    table = engine_of(MANY).cache.table
    with counted() as lines:
        assert sum([1 for row in range(table.size) if table.nodes[row] is not None]) == MANY
    assert lines.count >= MANY
