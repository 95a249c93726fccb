"""`scheduler.plugin` holds what plugin authors were promised, and all that they are shown."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from scheduler import plugin
from tests.testing.promise import present, promised

ROOT = Path(__file__).parents[2]
PUBLIC = {"scheduler.plugin", "scheduler.testing"}


def test_nothing_that_was_promised_is_gone_or_has_other_parameters() -> None:
    gone = set(promised()) - set(present())
    assert gone == set(), "a plugin may break: say so in CHANGELOG.md, then run python -m tests.testing.promise"


def test_every_name_is_promised() -> None:
    recorded = {re.split(r"[.(]", line)[0] for line in promised()}
    assert recorded == set(plugin.__all__), "run python -m tests.testing.promise to promise what is new"


def test_the_page_and_the_examples_import_nothing_else_of_the_scheduler() -> None:
    page = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "plugins.md").read_text(), re.MULTILINE | re.DOTALL)
    sources = [*page, *(file.read_text() for file in (ROOT / "examples").rglob("*.py"))]
    assert len(sources) > 10
    imported = {
        node.module
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("scheduler")
    }
    assert imported <= PUBLIC
