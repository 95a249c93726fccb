"""Rules of CONTRIBUTING.md that can be read off the source: no import that only a type checker sees."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "scheduler").rglob("*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_no_import_is_hidden_behind_a_type_checking_guard() -> None:
    guards = [
        _place(path, node.lineno)
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if (isinstance(node, ast.ImportFrom) and any(name.name == "TYPE_CHECKING" for name in node.names))
        or (isinstance(node, ast.Attribute) and node.attr == "TYPE_CHECKING")
    ]
    assert not guards, f"import the module really, or move the type to the floor where it belongs: {guards}"


LOADED_WHEN_NEEDED = {
    "scheduler/__main__.py",  # typer, for kubectl's completion
    "scheduler/cli/main.py",  # typer
    "scheduler/cli/run.py",  # rich
    "scheduler/cli/what_if.py",  # all of the scheduler, for a question that another one answers
    "scheduler/controller/operator.py",  # kopf
    "scheduler/controller/write/credentials.py",  # the client library, for kubeconfigs that are not plain
    "scheduler/objects/salvage.py",  # numpy, for commands that ask a scheduler
    "scheduler/plugins/devices/candidates.py",  # CEL and protobuf
}
"""Files that import something big inside a function, because most processes start without it."""


def test_imports_are_at_the_top_of_a_file_except_for_what_makes_the_start_slow() -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        for function in ast.walk(_tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function))
    }
    assert files == LOADED_WHEN_NEEDED
