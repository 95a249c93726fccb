"""A kind cluster with our image on its nodes, where a Docker engine is there.

The promises are checked with the scheduler beside the cluster, as a local process with the manifests' rights;
``test_deployment.py`` then installs the image and the manifests themselves.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.controlplane.versions import KUBERNETES

NAME = "tandem-e2e"
ROOT = Path(__file__).parent.parent
IMAGE = "tandem-scheduler:kind"
"""As manifests/overlays/kind has it."""


class KindError(Exception):
    """kind cannot be used or failed; the text says why."""


def missing() -> str:
    """The missing requirements of kind, as one sentence; empty if none is missing."""
    for program in ("docker", "kind"):
        if shutil.which(program) is None:
            return f"the program `{program}` is not on the PATH"
    engine = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=30)
    if engine.returncode:
        return "`docker` is there, but no Docker engine answers it"
    return ""


@contextmanager
def cluster(folder: Path) -> Iterator[Path]:
    """The kubeconfig of a new kind cluster that has our image; it is deleted in the end. Raises `KindError`."""
    if lacking := missing():
        raise KindError(f"E2E_CLUSTER=kind: {lacking}; E2E_CLUSTER=binaries needs only Go")
    _run("docker", "build", f"--tag={IMAGE}", str(ROOT))
    kubeconfig = folder / "kind-kubeconfig"
    node_image = f"kindest/node:{KUBERNETES}"
    try:
        _run("kind", "create", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}", f"--image={node_image}")
        _run("kind", "load", "docker-image", IMAGE, f"--name={NAME}")
        yield kubeconfig
    finally:
        _run("kind", "delete", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}")


def run_image(*flags: str) -> str:
    """What the image prints when it is run with these flags: no network, nothing to write to, any user."""
    confined = ("--network=none", "--read-only", "--user=12345:12345", "--cap-drop=ALL")
    return _run("docker", "run", "--rm", *confined, IMAGE, *flags)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise KindError(f"{' '.join(command[:3])} failed:\n{done.stderr[-3000:]}")
    return done.stdout
