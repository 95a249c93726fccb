"""CONTRIBUTING's recipes: one for each thing that is added, of at most three files, which exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_FILES = 3
RECIPES = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## How to add")[2].partition("\n## ")[0]
ROWS = [line.strip("|").split("|") for line in RECIPES.splitlines() if line.startswith("| ")][1:]


def test_there_is_a_recipe_for_whatever_is_added() -> None:
    assert len(ROWS) == 6
    for what, word in zip(ROWS, ("plugin", "kind", "setting", "command", "metric", "page"), strict=True):
        assert word in what[0]


def test_no_recipe_names_more_than_three_files_and_each_exists() -> None:
    for what, files, _ in ROWS:
        steps = files.split(";")
        assert 1 <= len(steps) <= MAX_FILES, what
        for path in re.findall(r"`([a-z_]+/[\w./]+)`", files):
            assert (ROOT / path).exists(), path
