"""What a user downloads, built once for all tests, and an environment in which nothing else of ours is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 240


@dataclass(frozen=True, slots=True)
class Distributions:
    wheel: Path
    sdist: Path


def files_of_the_repository() -> list[str]:
    """Every file that belongs to it; without git, as in an unpacked sdist, all that are here."""
    if not (ROOT / ".git").exists():
        return [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in listed if (ROOT / name).exists()]


def build(source: Path, kind: str, target: Path) -> Path:
    """Build a ``wheel`` or an ``sdist`` of this folder as a front end does, with the setuptools that is installed."""
    call = f"from setuptools.build_meta import build_{kind} as build; print(build({str(target)!r}))"
    done = subprocess.run([sys.executable, "-c", call], cwd=source, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Both are built from a copy: nothing is left behind in the repository, and nothing old of it gets in."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in files_of_the_repository():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    sdist = build(source, "sdist", target)
    shutil.unpack_archive(sdist, source / "unpacked", filter="data")
    (unpacked,) = (source / "unpacked").iterdir()
    return Distributions(build(unpacked, "wheel", target), sdist)


@pytest.fixture(scope="session")
def installed(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of a new environment with the wheel.

    Its dependencies are those of the tests' environment, seen by a path file: no network is needed. Path files are
    not read recursively, so a checkout is not seen.
    """
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(distributions.wheel)]
    subprocess.run(command, check=True, timeout=SECONDS, capture_output=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (packages / "dependencies.pth").write_text("\n".join(_folders_of_dependencies()) + "\n")
    return folder / "bin"


def _folders_of_dependencies() -> list[str]:
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
