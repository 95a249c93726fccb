"""What nothing that a network, a tenant or a file does can bring about, and the tests that keep each of these promises.

The tests lie beside what they test. This table is the index of them, and every name in it is looked up.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]

INDEX: Final = (Path(__file__).parent / "promises.txt").read_text().splitlines()
PROMISES: Final = [tuple(line.split(" | ")) for line in INDEX if not line.startswith("#")]


@cache
def defined_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize(("number", "promise", "tests"), PROMISES)
def test_each_promise_is_kept_by_tests_that_are_there(number: str, promise: str, tests: str) -> None:
    for test in tests.split("; "):
        file, _, name = test.partition("::")
        assert name in defined_in(file), f"{number}: {promise}"


def test_no_promise_is_left_out() -> None:
    assert [int(number) for number, _, _ in PROMISES] == list(range(1, 27))
