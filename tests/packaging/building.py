"""What a user downloads: the wheel and the sdist, built as a front end of packaging builds them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def distributions(scratch: Path) -> Distributions:
    """The sdist of a copy of the repository, and the wheel of the unpacked sdist.

    A copy, so that nothing is left behind in the repository, and nothing old of it gets in.
    """
    source, target = scratch / "source", scratch / "dist"
    target.mkdir()
    for name in files_of_the_repository():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    sdist = build(source, "sdist", target)
    # Python before 3.11.4 has no filters.
    filtered: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    shutil.unpack_archive(sdist, scratch / "unpacked", **filtered)
    (unpacked,) = (scratch / "unpacked").iterdir()
    return Distributions(build(unpacked, "wheel", target), sdist)
