"""The distributions, built once for all tests, and an environment in which nothing else of ours is installed."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.packaging import building
from tests.packaging.building import SECONDS, Distributions


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return building.distributions(tmp_path_factory.mktemp("distributions"))


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
