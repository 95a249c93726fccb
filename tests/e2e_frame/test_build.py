from __future__ import annotations

import io
from pathlib import Path

import pytest

from e2e.controlplane import build
from e2e.controlplane.versions import MODULE_SETS, OPERATORS, PROGRAMS, version_key


def test_without_go_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match="install Go"):
        build.programs(io.StringIO())


def test_programs_that_are_there_are_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / "tandem" / "controlplane" / version_key() / "bin"
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        (folder / name).touch(mode=0o755)
    log = io.StringIO()
    assert build.programs(log) == folder
    assert log.getvalue() == ""


def test_programs_that_only_some_tests_need_are_looked_for_when_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / "tandem" / "controlplane" / version_key() / "bin"
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        (folder / name).touch(mode=0o755)
    with pytest.raises(build.BuildError, match="install Go"):
        build.programs(io.StringIO(), also=("helm",))


@pytest.mark.parametrize("name", OPERATORS)
def test_without_go_a_controller_cannot_be_had(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match="install Go"):
        build.operator(name, io.StringIO())


@pytest.mark.parametrize("name", OPERATORS)
def test_a_controller_is_built_from_the_version_that_is_pinned(name: str) -> None:
    made = OPERATORS[name]
    required = (made.modules.path / "go.mod").read_text()
    assert f"\t{made.module} {made.version} // indirect\n" in required
    assert f"tool {made.program.package}\n" in required


def test_every_module_that_is_built_from_is_locked_by_a_sum() -> None:
    for modules in (*MODULE_SETS, *[operator.modules for operator in OPERATORS.values()]):
        sums = (modules.path / "go.sum").read_text()
        for line in (modules.path / "go.mod").read_text().splitlines():
            if line.startswith("\t") and line.endswith("// indirect"):
                name, version = line.split()[:2]
                assert f"{name} {version}" in sums, f"{modules.folder}: {name} {version} has no sum"
