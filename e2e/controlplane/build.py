"""Build the control plane's programs once, from Go modules, into the user's cache folder.

``python -m e2e.controlplane.build [PROGRAM...]`` prints the folder; the names add programs that only some tests need.
About six minutes on two cores the first time, nothing after; a controller of custom resources takes two to four more.
"""

from __future__ import annotations

import fcntl
import hashlib
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

from e2e.controlplane.versions import MODULE_SETS, ON_DEMAND, OPERATORS, PROGRAMS, ModuleSet, version_key


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


def operator(name: str, log: TextIO | None = None) -> tuple[Path, Path]:
    """The program of one of `OPERATORS`, and the folder of its module, where its manifests are. Raises `BuildError`."""
    made = OPERATORS[name]
    folder = cache_root() / "operators" / name / made.key()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / "lock"):
        if _missing(folder, [name]):
            _build(made.modules, [name], folder, log or sys.stderr)
    return folder / name, module_folder(made.modules.path, made.module)


def program_of(source: Path, log: TextIO | None = None, modules: str = "") -> Path:
    """The program that is built from a folder of Go files. Raises `BuildError`.

    Its go.mod and go.sum are those of the set `modules`; without, it has a go.mod of its own and no dependencies. It is
    kept in the user's cache folder under a name of its sources: a change of them builds another one.
    """
    locked = next((one.path for one in MODULE_SETS if one.folder == modules), source)
    files = [*sorted(source.glob("*.go")), *sorted(locked.glob("go.*"))]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    built = cache_root() / source.name / digest.hexdigest()[:12] / source.name
    if not os.access(built, os.X_OK):
        built.parent.mkdir(parents=True, exist_ok=True)
        with _alone(built.parent / "lock"), tempfile.TemporaryDirectory(dir=built.parent) as scratch:
            work = Path(scratch) / "work"
            work.mkdir()
            for file in files:
                shutil.copyfile(file, work / file.name)
            _go_build(work, ".", (), work / source.name, log or sys.stderr)
            (work / source.name).rename(built)
    return built


def _cache_folder() -> Path:
    return cache_root() / "controlplane" / version_key()


def cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")) / "tandem"


def _missing(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not os.access(folder / name, os.X_OK)]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(modules: ModuleSet, wanted: list[str], folder: Path, log: TextIO) -> None:
    # Beside the target, so that the last step is a rename within one file system and therefore atomic.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{modules.folder}-") as scratch:
        work = Path(scratch)
        for file in ("go.mod", "go.sum"):
            shutil.copyfile(modules.path / file, work / file)
        for program in modules.programs:
            if program.name in wanted:
                _go_build(work, program.package, program.stamps, work / program.name, log)
                (work / program.name).rename(folder / program.name)


def module_folder(work: Path, module: str) -> Path:
    """Where the sources of a module are that the go.mod in `work` requires; they are fetched if they are not there."""
    go = _go()
    for command in ([go, "mod", "download", module], [go, "list", "-m", "-mod=readonly", "-f", "{{.Dir}}", module]):
        done = subprocess.run(command, cwd=work, capture_output=True, text=True)
        if done.returncode:
            raise BuildError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return Path(done.stdout.strip())


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "the control plane is built from Go modules and `go` is not on the PATH: install Go 1.26 or newer, "
            "or set E2E_CLUSTER=kubeconfig and KUBECONFIG to use a cluster that is there"
        )
    return go


def _go_build(work: Path, package: str, stamps: Sequence[tuple[str, str]], target: Path, log: TextIO) -> None:
    """Build one package within the module in the folder `work`."""
    go = _go()
    print(f"building {target.name}", file=log, flush=True)
    began = time.monotonic()
    flags = " ".join(f"-X {symbol}={value}" for symbol, value in stamps)
    command = [go, "build", "-mod=readonly", "-trimpath", f"-ldflags=-s -w {flags}", "-o", str(target), package]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"go build of {package} failed:\n{done.stderr[-4000:]}")
    print(f"built {target.name} in {time.monotonic() - began:.0f} s", file=log, flush=True)


def main(arguments: Sequence[str]) -> int:
    try:
        if unknown := set(arguments) - {*PROGRAMS, *ON_DEMAND, *OPERATORS}:
            known = ", ".join((*ON_DEMAND, *OPERATORS))
            raise BuildError(f"no such program: {', '.join(sorted(unknown))}; there are {known}")
        print(programs(also=[name for name in arguments if name not in OPERATORS]))
        for name in OPERATORS:
            if name in arguments:
                print(operator(name)[0])
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
