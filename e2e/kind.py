"""A kind cluster, where a Docker engine is there. The scheduler under test runs beside it, as a local process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.controlplane.versions import KUBERNETES

NAME = "tandem-e2e"


class KindError(Exception):
    """kind cannot be used or failed; the text says why."""


def missing() -> str:
    """What kind needs and is not there, as one sentence; empty when all is there."""
    for program in ("docker", "kind"):
        if shutil.which(program) is None:
            return f"the program `{program}` is not on the PATH"
    engine = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=30)
    if engine.returncode:
        return "`docker` is there, but no Docker engine answers it"
    return ""


@contextmanager
def cluster(folder: Path) -> Iterator[Path]:
    """The kubeconfig of a new kind cluster, which is deleted in the end. Raises `KindError`."""
    if lacking := missing():
        raise KindError(f"E2E_CLUSTER=kind: {lacking}; E2E_CLUSTER=binaries needs only Go")
    kubeconfig = folder / "kind-kubeconfig"
    node_image = f"kindest/node:{KUBERNETES}"
    try:
        _run("kind", "create", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}", f"--image={node_image}")
        yield kubeconfig
    finally:
        _run("kind", "delete", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise KindError(f"{' '.join(command[:3])} failed:\n{done.stderr[-3000:]}")
