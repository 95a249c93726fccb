"""Rules of CONTRIBUTING.md that can be read off the source: imports, lengths, parameters, words."""

import ast
import re
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
    "scheduler/__main__.py",  # every command, for kubectl's completion
    "scheduler/cli/main.py",  # argparse and rich, which `version` does without
    "scheduler/cli/run.py",  # rich; aiohttp and the pages, before the first decision
    "scheduler/cli/asking.py",  # all of the scheduler, or the way to its leader, for a question to another one
    "scheduler/config/own_version.py",  # importlib.metadata
    "scheduler/controller/assembly.py",  # aiohttp and the pages, before the first decision
    "scheduler/controller/calls/extender_calls.py",  # aiohttp, where there are no extenders
    "scheduler/controller/operator.py",  # kopf
    "scheduler/controller/serve/tls.py",  # cryptography, where no HTTPS is served
    "scheduler/controller/write/client.py",  # aiohttp, for commands that ask one question
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


def test_the_controller_imports_one_thing_at_a_time_after_the_start() -> None:
    """Threads that import modules of one package at once may see halves of them: see ``late_imports``."""
    inside = [
        (path, node)
        for path in SOURCES
        if path.is_relative_to(ROOT / "scheduler" / "controller")
        for function in ast.walk(_tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    held = {
        id(node)
        for path, _ in inside
        for block in ast.walk(_tree(path))
        if isinstance(block, ast.With) and any(ast.unparse(one.context_expr) == "ONE_AT_A_TIME" for one in block.items)
        for node in ast.walk(block)
    }
    assert len(inside) > 5
    bare = [_place(path, node.lineno) for path, node in inside if id(node) not in held]
    assert not bare, f"hold ONE_AT_A_TIME around: {bare}"


def test_values_are_structs_except_the_options_of_commands() -> None:
    """A struct takes a fortieth of a dataclass's time to define, which every start pays, and less than half to make."""
    dataclasses = [
        _place(path, node.lineno)
        for path in SOURCES
        if path.parent.name != "cli"
        for node in ast.walk(_tree(path))
        if (isinstance(node, ast.ImportFrom) and node.module == "dataclasses")
        or (isinstance(node, ast.Import) and any(name.name == "dataclasses" for name in node.names))
    ]
    assert not dataclasses, f"use msgspec.Struct, and replace, asdict and fields of msgspec.structs: {dataclasses}"


MAX_LINES = 400


def test_a_file_has_at_most_400_lines() -> None:
    files = [path for folder in ("scheduler", "tests", "e2e", "examples") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > len(SOURCES)
    longer = {
        path.relative_to(ROOT).as_posix()
        for path in files
        if len(path.read_text(encoding="utf-8").splitlines()) > MAX_LINES
    }
    assert not longer, f"split by a part that has a name: {sorted(longer)}"


MAX_PARAMETERS = 7


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_a_function_has_at_most_seven_parameters() -> None:
    """The functions of commands aside, each parameter of which is a flag."""
    more = {
        f"{path.relative_to(ROOT).as_posix()}:{node.name}"
        for path in SOURCES
        if path.parent != ROOT / "scheduler" / "cli"
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _parameters(node) > MAX_PARAMETERS
    }
    assert not more, f"make a value of what belongs together: {sorted(more)}"


def _is_plugin(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Plugin") for base in node.bases)


def test_a_built_in_plugin_assigns_to_itself_only_when_it_is_made() -> None:
    """Plugins hold no state: two engines can share one set of profiles."""
    plugins = [
        (path, plugin)
        for path in sorted((ROOT / "scheduler" / "plugins").rglob("*.py"))
        for plugin in ast.walk(_tree(path))
        if _is_plugin(plugin)
    ]
    assert len(plugins) > 20
    assigned = [
        _place(path, node.lineno)
        for path, plugin in plugins
        for method in ast.walk(plugin)
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.name != "__init__"
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    ]
    assert not assigned, f"let it travel in a State, or in what the engine keeps: {assigned}"


FOREIGN = re.compile(
    r"\b((?i:(no|some|every|any)body|anew|told|whoever|so many|so long|thereof|whom)|_?(MOST|LONGEST)_[A-Z]+)\b"
)
TERMS = ("MOST_ALLOCATED",)
"""Names of Kubernetes."""
WORD_BOUNDARY = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")
"""Between the words of an identifier."""
TEXT_FOLDERS = ("scheduler", "tests", "e2e", "docs", "manifests", "charts", "examples", "release")
TEXT_SUFFIXES = (".py", ".md", ".yaml", ".html", ".js", ".css", ".tpl", ".txt", ".go")
RELEASED = ROOT / "e2e" / "data"
"""What an earlier version shipped, as it was."""


def _texts() -> list[Path]:
    texts = [
        path
        for folder in TEXT_FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in TEXT_SUFFIXES and not path.is_relative_to(RELEASED) and path != Path(__file__)
    ]
    return [*texts, *ROOT.glob("*.md")]


def _is_foreign(text: str) -> bool:
    """Whether the text, or an identifier in it, has a word that is not one of the field's."""
    return any(match.group() not in TERMS for match in FOREIGN.finditer(text)) or bool(
        FOREIGN.search(WORD_BOUNDARY.sub(" ", text))
    )


OTHER_WORDS = {
    "scheduler/framework/classes": {
        "dirty", "edition", "epoch", "generation", "look", "looks", "moved", "moves", "outdated", "position",
    },
}  # fmt: skip
"""Words that a package's identifiers leave out, since its docstring has another one for each."""


def _identifiers(path: Path) -> set[str]:
    tree = _tree(path)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return names | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_a_package_with_a_glossary_has_one_word_for_one_thing() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for package, words in OTHER_WORDS.items()
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in sorted(_identifiers(path))
        if words & set(WORD_BOUNDARY.sub(" ", name).lower().split())
    ]
    assert not found, f"see the glossary in the package's docstring: {found}"


def test_the_words_are_those_of_the_field() -> None:
    texts = _texts()
    assert len(texts) > len(SOURCES)
    found = [
        _place(path, number)
        for path in texts
        if _is_foreign(text := path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), start=1)
        if _is_foreign(line)
    ]
    found += [str(path.relative_to(ROOT)) for path in texts if _is_foreign(path.stem)]
    assert not found, f"say it as the field does (CONTRIBUTING.md): {found}"
