"""Which real cluster the promises are checked on: `E2E_CLUSTER` is ``kind``, ``kubeconfig`` or ``binaries``.

Unset, it is kind if a Docker engine and the kind program are available, else the binaries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e import kind
from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.processes import Process

PROVIDERS = ("kind", "kubeconfig", "binaries")


class NoCluster(Exception):
    """There is no cluster to run on; the text names what is missing."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster to test on. `controlplane` is there only when it is ours alone: to restart, to count nodes exactly."""

    provider: str
    kubeconfig: Path
    folder: Path
    programs: Path
    controlplane: ControlPlane | None = None


def choose() -> str:
    """The provider's name. Raises `NoCluster` when `E2E_CLUSTER` names none."""
    wished = os.environ.get("E2E_CLUSTER", "")
    if wished and wished not in PROVIDERS:
        raise NoCluster(f"E2E_CLUSTER={wished}: it must be one of {', '.join(PROVIDERS)}")
    return wished or ("binaries" if kind.missing() else "kind")


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A running cluster, with KWOK as the kubelet of pretended nodes. Raises `NoCluster`."""
    provider = choose()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-e2e-")))
        if provider == "binaries":
            try:
                controlplane = stack.enter_context(ControlPlane(audit=True))
            except build.BuildError as error:
                raise NoCluster(str(error)) from error
            yield Cluster(provider, controlplane.kubeconfig(), folder, controlplane.programs, controlplane)
            return
        try:
            programs = build.programs()
            kubeconfig = stack.enter_context(kind.cluster(folder)) if provider == "kind" else _existing(programs)
        except (build.BuildError, kind.KindError) as error:
            raise NoCluster(str(error)) from error
        stack.callback(_kwok_for_pretended_nodes(programs, kubeconfig, folder).stop)
        yield Cluster(provider, kubeconfig, folder, programs)


def _existing(programs: Path) -> Path:
    path = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    if not path.is_file():
        raise NoCluster(f"E2E_CLUSTER=kubeconfig, but {path} is not a file: set KUBECONFIG to one kubeconfig file")
    command = [str(programs / "kubectl"), f"--kubeconfig={path}", "get", "--raw=/readyz"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if answer.returncode:
        raise NoCluster(f"the cluster of {path} does not answer: {answer.stderr.strip()}")
    return path


def _kwok_for_pretended_nodes(programs: Path, kubeconfig: Path, folder: Path) -> Process:
    """On a cluster with kubelets of its own KWOK must touch only the nodes that we made."""
    stages = Path(__file__).parent / "controlplane" / "kwok.yaml"
    command = [
        shutil.which("kwok") or str(programs / "kwok"),
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--config={stages}",
    ]
    return Process("kwok", command, folder / "kwok.log").start()
