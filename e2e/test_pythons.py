"""Promise: the wheel installs with its dependencies and works on every Python that the package names."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.packaging import building
from tests.packaging.building import ROOT, Distributions

pytestmark = [pytest.mark.tandem_only, pytest.mark.long]

CLASSIFIERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
PYTHONS = [found[1] for text in CLASSIFIERS if (found := re.fullmatch(r".*Python :: (3\.\d+)", text))]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return building.distributions(tmp_path_factory.mktemp("distributions"))


@pytest.mark.parametrize("version", PYTHONS)
def test_it_is_installed_from_the_index_and_the_demo_runs(
    distributions: Distributions, version: str, tmp_path: Path
) -> None:
    python = _interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")

    def run(*command: str | Path) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(python, "-m", "venv", tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", "--only-binary=:all:", distributions.wheel)
    assert "decides as kube-scheduler" in run(programs / "tandem", "version")
    run(programs / "tandem", "check-config", ROOT / "manifests" / "base" / "scheduler.yaml")
    shown = run(programs / "tandem", "demo")
    steps = re.findall(r"^\[.*?\] (\d+)/(\d+) ", shown, re.MULTILINE)
    assert steps[-1][0] == steps[-1][1], shown
    assert "pods were bound" in shown
    assert "Asked: what if" in shown


def _interpreter(version: str) -> str | None:
    """One that pyenv has installed, or one on the path that starts: pyenv's shims exist for versions, too, that are not
    chosen, and then only fail."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    candidates = [*map(str, reversed(installed)), shutil.which(f"python{version}")]
    return next((path for path in candidates if path is not None and _starts(path)), None)


def _starts(python: str) -> bool:
    try:
        return subprocess.run([python, "--version"], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
