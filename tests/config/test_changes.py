"""What a new configuration changes is said field by field."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config.changes import MAX_CHANGES, changes_between


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1 → 2"]),
        ({"a": {"b": "x"}}, {"a": {}}, ["a.b: removed x"]),
        ({}, {"a": [1]}, ["a: added [1]"]),
        ({"p": [{"name": "A", "weight": 1}]}, {"p": [{"name": "A", "weight": 2}]}, ["p[A].weight: 1 → 2"]),
        ({"p": [{"name": "A"}]}, {"p": [{"name": "B"}, {"name": "A"}]}, ['p[B]: added {"name":"B"}']),
        (
            {"p": [{"name": "A"}, {"name": "B"}]},
            {"p": [{"name": "B"}, {"name": "A"}]},
            ["p (order): A, B → B, A"],
        ),
    ],
)
def test_changes_are_named_by_their_path(old: Any, new: Any, said: list[str]) -> None:
    assert [str(change) for change in changes_between(old, new)] == said


def test_very_many_changes_and_very_long_values_are_cut() -> None:
    old = {str(number): "x" * 10_000 for number in range(10 * MAX_CHANGES)}
    found = changes_between(old, {})
    assert len(found) == MAX_CHANGES + 1
    assert max(len(str(change)) for change in found) < 300
