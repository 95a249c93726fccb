"""README.md, CONTRIBUTING.md and docs/ say nothing that isn't there: files, commands, flags, settings, counts."""

from __future__ import annotations

import enum
import gzip
import re
import shlex
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from e2e.controlplane.versions import KUBERNETES
from scheduler.cli.commands import BY_NAME
from scheduler.cli.flags import FLAGS, read_flags
from scheduler.cli.options import declared_by, read_options
from scheduler.cli.reload import AT_START_ONLY
from scheduler.cli.version import KUBERNETES as DECIDES_AS
from scheduler.config import tandem
from scheduler.config.feature_gates import DECIDING, HONOURED
from scheduler.config.gate_table import GATES
from scheduler.config.loading import load
from scheduler.config.tandem import Limits, TandemConfiguration, configuration_document
from scheduler.objects.selector_fields import LabelSelector
from scheduler.simulate.demo_workload import scenes
from tests.docs.pages import anchor, headings, links
from tests.queue.vectors import DIFFERENCES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PAGES = {
    "README.md": README,
    "CONTRIBUTING.md": CONTRIBUTING,
    **{str(page.relative_to(ROOT)): page.read_text() for page in sorted((ROOT / "docs").rglob("*.md"))},
}
MAX_README_LINES = 100
"""Two screens."""
VECTORS = ROOT / "tests" / "conformance" / "data"

_FOLDERS = "scheduler|tests|e2e|manifests|docs|examples"
_PATH = re.compile(rf"(?<![\w/.-])(?:\.ci/run|(?:{_FOLDERS})/[\w./-]*|[A-Z][\w.-]*\.md|Dockerfile|Makefile)(?![\w*])")
_OPTIONS = {name: command.options() for name, command in BY_NAME.items() if not command.reads_words}


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def _shell_lines() -> list[str]:
    """Every command line of the pages' shell blocks, continued lines joined, comments left out."""
    text = "".join(block for page in PAGES.values() for block in _blocks(page, "sh")).replace("\\\n", " ")
    return [
        line.partition(" #")[0].partition(" > ")[0].strip()
        for line in text.splitlines()
        if line and not line.startswith("#")
    ]


def _own_calls() -> list[list[str]]:
    """The words after ``tandem``, or ``python -m scheduler``, of every command line in a block."""
    found = []
    for line in _shell_lines():
        words = shlex.split(
            line.replace(".venv/bin/python -m scheduler", "tandem").replace(".venv/bin/tandem", "tandem")
        )
        if "tandem" in words and words[0] != "helm":
            found.append(words[words.index("tandem") + 1 :])
    return found


def _page(name: str) -> str:
    return PAGES[f"docs/{name}.md"]


def _table(text: str) -> list[list[str]]:
    """The cells of the only table of a text, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# --- files, targets, commands, flags ----------------------------------------------------------------------------------


def test_the_readme_fits_on_two_screens() -> None:
    assert len(README.splitlines()) <= MAX_README_LINES


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("docs/kube-scheduler/")])
def test_every_path_that_is_named_exists(page: str) -> None:
    named = {match.group().rstrip("./") for match in _PATH.finditer(PAGES[page])}
    assert named or page.startswith("docs/")
    assert not [path for path in sorted(named) if not (ROOT / path).exists()]


def test_every_package_and_top_module_of_the_scheduler_is_named_in_the_code_map() -> None:
    entries = [
        path for path in (ROOT / "scheduler").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    names = [path.name for path in entries if path.name != "__init__.py"]
    code_map = CONTRIBUTING.partition("\n## Code map\n")[2].partition("\n## ")[0]
    assert len(names) > 10
    assert not [name for name in names if not re.search(rf"`(scheduler/)?{re.escape(name)}/?`", code_map)]


def test_every_make_target_that_is_named_is_in_the_makefile_and_the_other_way_round() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    named = {word for page in PAGES.values() for word in re.findall(r"(?:^|`)make ([a-z0-9-]+)", page, re.MULTILINE)}
    assert named == targets


def test_every_command_of_tandem_that_is_shown_is_understood() -> None:
    calls = _own_calls()
    assert {call[0] for call in calls} == set(BY_NAME)
    for name, *rest in calls:
        if name == "run":
            read_flags(rest)
        elif name == "version":
            assert not rest
        else:
            read_options(_OPTIONS[name], [re.sub(r"^[A-Z/]+$", "x", word) for word in rest])


def test_every_flag_in_the_text_exists() -> None:
    known = {f"--{flag.name}" for flag in FLAGS}
    known |= {flag for kind in _OPTIONS.values() for _, _, one in declared_by(kind) for flag in one.flags}
    named = set(re.findall(r"`(--[a-z][a-z-]+)", _page("questions") + _page("configuration") + README))
    assert named
    assert not named - known


def test_every_page_that_is_named_is_served() -> None:
    served = "".join(
        (ROOT / "scheduler/controller" / name).read_text()
        for name in ("serve/server.py", "serve/pages.py", "serve/questions.py", "serve/live.py", "serve/page_files.py")
    )
    pages = set(re.findall(r"`(/[a-z]+(?:/[a-z]+)?)", _page("questions")))
    assert {"/debug/queue", "/debug/why", "/metrics", "/configz"} <= pages
    assert not [page for page in sorted(pages) if f'"{page}' not in served]


def test_links_lead_to_a_file_and_a_heading_that_are_there() -> None:
    for name, text in PAGES.items():
        for target, heading in links(text):
            file = (ROOT / name).parent / target if target else ROOT / name
            assert file.exists(), f"{name}: {target}"
            if heading and file.suffix == ".md":
                assert heading in map(anchor, headings(file.read_text())), f"{name}: {target}#{heading}"


def test_the_scenes_of_the_demo_that_are_shown_are_in_the_demo() -> None:
    titles = [scene.title for scene in scenes()]
    for text in (README, _page("install")):
        shown = re.findall(r"^\[ +[\d.]+ s\] (\d+)/(\d+) (.*)$", text, re.MULTILINE)
        assert len(shown) > 3
        for number, total, title in shown:
            assert (titles[int(number) - 1], len(titles)) == (title, int(total))


# --- configuration ----------------------------------------------------------------------------------------------------


def test_the_configuration_that_is_shown_loads() -> None:
    shown = [block for block in _blocks(_page("configuration"), "yaml") if "kind: TandemConfiguration" in block]
    strict, with_groups = [load(text) for text in shown]
    assert strict.tandem.preemption.pdb_policy is tandem.PDBPolicy.STRICT
    assert with_groups.tandem.groups.coscheduling.enabled
    assert [one.scheduler_name for one in with_groups.kube.profiles] == [
        "tandem-scheduler",
        "scheduler-plugins-scheduler",
    ]


def test_the_table_of_settings_is_that_of_the_code() -> None:
    documented = [tuple(cells[:3]) for cells in _table(_settings_section())]
    assert documented == list(_settings(TandemConfiguration, configuration_document(TandemConfiguration())))
    assert all(cells[3] for cells in _table(_settings_section()))


def test_every_setting_is_read_somewhere() -> None:
    source = "".join(
        file.read_text() for file in sorted((ROOT / "scheduler").rglob("*.py")) if file.parent.name != "config"
    )
    unread = set()
    for path in (
        setting for setting, *_ in _settings(TandemConfiguration, configuration_document(TandemConfiguration()))
    ):
        name = re.sub(r"([A-Z]+)", r"_\1", path.strip("`").rpartition(".")[2]).lower()
        if not re.search(rf"\b(tandem|preemption|limits|breaker|coscheduling|_?settings)\.{name}\b", source):
            unread.add(path.strip("`"))
    assert not unread


def test_the_settings_that_wait_for_the_next_start_are_named() -> None:
    sentence = _page("configuration").partition("Changes of ")[2].partition("wait for the next start")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == {name for name, _part in AT_START_ONLY}


def test_the_gates_that_are_said_to_be_the_only_ones_are() -> None:
    # Two lists of all gates, and one of features of nodes, some of which have a gate's name.
    lists = {"feature_gates.py", "gate_table.py", "node_declared_features.py"}
    files = [file for file in (ROOT / "scheduler").rglob("*.py") if file.name not in lists]
    named = {name for file in files for name in re.findall(r'"(\w+)"', file.read_text())}
    assert named & GATES.keys() == HONOURED
    gates = set(re.findall(r"`(\w+)`", _marked("gates", "configuration")))
    assert HONOURED <= gates <= GATES.keys() | {"Gt", "Lt"}
    assert DECIDING & gates


def _settings_section() -> str:
    return _page("configuration").partition("## TandemConfiguration")[2].partition("\n## ")[0]


def _marked(name: str, page: str) -> str:
    """What stands between the two marks of this name on the page; they are there once."""
    found = re.findall(rf"<!-- {name}:begin -->(.*?)<!-- {name}:end -->", _page(page), re.DOTALL)
    assert len(found) == 1
    text: str = found[0]
    return text


def _settings(kind: type[Any], defaults: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """(setting, values, default) of each, as the README writes them; ``apiVersion`` and ``kind`` left out."""
    for field in msgspec.structs.fields(kind):
        name = f"{path}{field.encode_name}"
        default = defaults.get(field.encode_name)
        if name in ("apiVersion", "kind"):
            continue
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _settings(field.type, default or {}, f"{name}.")
        else:
            is_map = typing.get_origin(field.type) is dict
            yield f"`{name}`", _values(kind, field), "`{}`" if is_map and default is None else f"`{_shown(default)}`"


def _values(kind: type[Any], field: msgspec.structs.FieldInfo) -> str:
    if isinstance(field.type, type) and issubclass(field.type, enum.Enum):
        return ", ".join(f"`{each.value}`" for each in field.type)
    if kind is Limits:
        low, high = tandem.LIMIT_RANGES[field.name]
        return f"{low:,} to {high:,}"
    for word, types in {
        "yes or no": (bool,),
        "a number": (tandem.Count,),
        "a list": (tuple[tandem.UserPlugin, ...],),
        "label selectors by `schedulerName`": (dict[str, LabelSelector],),
    }.items():
        if field.type in types:
            return word
    return "a duration"


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if default is None:
        return "[]"
    return f"{default:,}" if isinstance(default, int) else str(default)


# --- counts, versions, words ------------------------------------------------------------------------------------------


def test_the_numbers_of_vectors_are_those_of_the_data() -> None:
    lines = {file.name: _line_count(file) for file in VECTORS.glob("*.jsonl.gz")}
    sequences = lines.pop("queue.jsonl.gz")
    exactness = " ".join(_page("exactness").split())
    assert f"{sum(lines.values()):,} decisions" in exactness
    assert f"{sequences} queue sequences" in exactness
    assert f"{sequences - len(DIFFERENCES)} of them to the end" in exactness


def test_the_version_that_it_is_tested_with_is_the_one_that_is_built() -> None:
    assert f"kube-apiserver {KUBERNETES.removeprefix('v')}" in _page("limits")
    assert f"kube-scheduler {DECIDES_AS}" in README


def test_the_python_version_is_that_of_the_package() -> None:
    minimum = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert minimum is not None
    assert f"Python {minimum[1]}" in README


def test_the_log_lines_that_are_quoted_are_logged() -> None:
    source = "".join(file.read_text() for file in (ROOT / "scheduler/controller").glob("*.py"))
    quoted = re.findall(r"the log: (.*?) \|", _page("troubleshooting"))
    assert len(quoted) == 1
    texts = re.findall(r"`([^`]+)`", quoted[0])
    assert len(texts) == 2
    assert all(f'"{text}' in source for text in texts)


def test_there_is_one_place_for_measured_figures() -> None:
    assert "bench" in _page("performance")
    assert _marked("bench", "performance").strip()


def test_the_yaml_that_is_shown_is_yaml() -> None:
    for page in PAGES.values():
        for block in _blocks(page, "yaml"):
            assert list(yaml.safe_load_all(block))


def _line_count(file: Path) -> int:
    with gzip.open(file, "rb") as lines:
        return sum(1 for line in lines if line.strip())
