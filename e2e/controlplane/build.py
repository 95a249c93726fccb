"""Build the control plane's programs once, from Go modules, into the user's cache folder.

``python -m e2e.controlplane.build [PROGRAM...]`` prints the folder; the names add programs that only some tests need.
About six minutes on two cores the first time, nothing after.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from e2e.controlplane.versions import MODULE_SETS, ON_DEMAND, PROGRAMS, ModuleSet, version_key


class BuildError(Exception):
    """The programs could not be built; the text gives a remedy."""


def programs(log: TextIO | None = None, also: Sequence[str] = ()) -> Path:
    """The folder with the control plane's programs, and those of `ON_DEMAND` that `also` names. Raises `BuildError`.

    What is missing is built first.

    Safe to call from several processes at once: one builds, the others wait. A program appears under its name only
    when it is complete.
    """
    log = log or sys.stderr
    folder = _cache_folder() / "bin"
    names = (*PROGRAMS, *also)
    if _missing(folder, names):
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder.parent / "lock"):
            for modules in MODULE_SETS:
                if wanted := [name for name in _missing(folder, names) if name in {p.name for p in modules.programs}]:
                    _build(modules, wanted, folder, log)
    return folder


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "tandem" / "controlplane" / version_key()


def _missing(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not os.access(folder / name, os.X_OK)]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(modules: ModuleSet, wanted: list[str], folder: Path, log: TextIO) -> None:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "the control plane is built from Go modules and `go` is not on the PATH: install Go 1.26 or newer, "
            "or set E2E_CLUSTER=kubeconfig and KUBECONFIG to use a cluster that is there"
        )
    # Beside the target, so that the last step is a rename within one file system and therefore atomic.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{modules.folder}-") as scratch:
        work = Path(scratch)
        for file in ("go.mod", "go.sum"):
            shutil.copyfile(modules.path / file, work / file)
        for program in modules.programs:
            if program.name not in wanted:
                continue
            print(f"building {program.name}", file=log, flush=True)
            began = time.monotonic()
            stamps = " ".join(f"-X {symbol}={value}" for symbol, value in program.stamps)
            command = [go, "build", "-mod=readonly", "-trimpath", f"-ldflags=-s -w {stamps}", "-o", program.name]
            done = subprocess.run([*command, program.package], cwd=work, capture_output=True, text=True)
            if done.returncode:
                raise BuildError(f"go build of {program.package} failed:\n{done.stderr[-4000:]}")
            (work / program.name).rename(folder / program.name)
            print(f"built {program.name} in {time.monotonic() - began:.0f} s", file=log, flush=True)


def main(arguments: Sequence[str]) -> int:
    try:
        if unknown := set(arguments) - {*PROGRAMS, *ON_DEMAND}:
            raise BuildError(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(ON_DEMAND)}")
        print(programs(also=arguments))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
