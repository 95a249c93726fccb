"""Which nodes hold which image: kept up to date by what has changed, and the same as an index made from nothing."""

from __future__ import annotations

import random

import pytest

from scheduler.cluster.image_index import ImageIndex
from scheduler.objects.node import Node
from scheduler.testing.objects import node

NAMES = [f"app-{number}:1" for number in range(6)]


class Plain:
    """The rule, by itself: a node's images go and come with each change of it; the size is that of who came first."""

    def __init__(self) -> None:
        self.rows: dict[str, set[int]] = {}
        self.sizes: dict[str, int] = {}

    def change(self, row: int, old: dict[str, int], new: dict[str, int]) -> None:
        if old == new:
            return
        for name in old:
            self.rows[name].discard(row)
            if not self.rows[name]:
                del self.rows[name], self.sizes[name]
        for name, size in new.items():
            self.sizes.setdefault(name, size)
            self.rows.setdefault(name, set()).add(row)


def _agree(index: ImageIndex, plain: Plain) -> None:
    for name in NAMES:
        state = index.get(name)
        assert (set() if state is None else state.rows) == plain.rows.get(name, set())
        if state is not None:
            assert state.size_bytes == plain.sizes[name]


@pytest.mark.parametrize("seed", range(20))
def test_any_changes_lead_to_the_same_as_the_plain_rule(seed: int) -> None:
    chance = random.Random(seed)
    index, plain = ImageIndex(), Plain()
    forks: list[tuple[ImageIndex, dict[str, set[int]]]] = []
    present: dict[int, tuple[Node, dict[str, int]]] = {}
    for _ in range(300):
        row = chance.randrange(8)
        old, had = present.get(row, (None, {}))
        new, has = None, {}
        if chance.random() < 0.85:
            has = {name: chance.choice([10, 10, 20]) for name in chance.sample(NAMES, chance.randrange(5))}
            new = node(f"n{row}", images=has)
        index.change(row, old, new)
        plain.change(row, had, has)
        if new is None:
            present.pop(row, None)
        else:
            present[row] = (new, has)
        _agree(index, plain)
        for name in chance.sample(NAMES, 2):
            state = index.get(name)
            if state is not None:
                assert state.row_array().tolist() == sorted(plain.rows[name])
        if chance.random() < 0.05:
            forks.append((index.fork(), {name: set(rows) for name, rows in plain.rows.items()}))
    for fork, rows in forks:
        found = {name: state for name in NAMES if (state := fork.get(name)) is not None}
        assert {name: state.row_array().tolist() for name, state in found.items()} == {
            name: sorted(held) for name, held in rows.items()
        }


def test_versions_change_with_the_images_that_are_asked_about_and_with_no_others() -> None:
    index = ImageIndex()
    index.change(0, None, node("a", images={"x:1": 1, "y:1": 1}))
    index.change(1, None, node("b", images={"x:1": 1}))
    before = index.versions(["x:1"])
    index.change(1, node("b", images={"x:1": 1}), node("b", images={"x:1": 1, "z:1": 1}))
    assert index.versions(["x:1"]) == before
    assert index.versions(["z:1", "none:1"]) == (3, 0)
    index.change(1, node("b", images={"x:1": 1, "z:1": 1}), None)
    assert index.versions(["x:1"]) != before
    assert index.versions(["z:1"]) == (0,)
