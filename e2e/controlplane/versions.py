"""What the control plane is built from: Go modules at fixed versions, each set locked by its own go.mod and go.sum.

`modules/<name>/` holds the two files of one set. The Kubernetes set needs a ``replace`` line for every staging
module, because ``k8s.io/kubernetes`` itself points them at folders that only its own repository has.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "v1.36.3"
ETCD = "v3.6.7"
KWOK = "v0.8.0"
HELM = "v4.3.1"
JOBSET = "v0.12.0"
"""The first that is made for Kubernetes 1.36: its JobSets keep ``schedulingGroup``."""
TRAINER = "v2.3.0"
"""The first that is made for Kubernetes 1.36 and for JobSet v0.12."""
KUBERAY = "v1.6.2"
"""The newest that the Go module proxy has whole. Made for Kubernetes 1.35: its RayClusters lose ``schedulingGroup``."""
KUEUE = "v0.18.3"
"""The newest that Kubernetes 1.36 and JobSet v0.12 are what it is made for."""

MODULES = Path(__file__).parent / "modules"
_STAMP = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Program:
    """One executable: its file name, the Go package it is built from, and linker stamps (symbol -> value)."""

    name: str
    package: str
    stamps: tuple[tuple[str, str], ...] = ()
    on_demand: bool = False
    """Not of the control plane: built for the tests that name it, and for no others."""


@dataclass(frozen=True, slots=True)
class ModuleSet:
    """Programs that share one go.mod and go.sum, kept in the folder ``modules/<folder>``."""

    folder: str
    programs: tuple[Program, ...]

    @property
    def path(self) -> Path:
        return MODULES / self.folder


def _kubernetes(name: str, on_demand: bool = False) -> Program:
    _, minor, _ = KUBERNETES.removeprefix("v").split(".")
    stamps = ((f"{_STAMP}.gitVersion", KUBERNETES), (f"{_STAMP}.gitMajor", "1"), (f"{_STAMP}.gitMinor", minor))
    return Program(name, f"k8s.io/kubernetes/cmd/{name}", stamps, on_demand)


MODULE_SETS = (
    ModuleSet(
        "kubernetes",
        (
            *map(_kubernetes, ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")),
            _kubernetes("kubemark", on_demand=True),
        ),
    ),
    ModuleSet("etcd", (Program("etcd", "go.etcd.io/etcd/server/v3"),)),
    ModuleSet("kwok", (Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),)),
    ModuleSet("helm", (Program("helm", "helm.sh/helm/v4/cmd/helm", on_demand=True),)),
)


@dataclass(frozen=True, slots=True)
class Operator:
    """A controller of custom resources, built for the tests that run it. ``module``@``version`` holds its manifests."""

    modules: ModuleSet
    module: str
    version: str

    @property
    def program(self) -> Program:
        return self.modules.programs[0]

    def key(self) -> str:
        """A short name for exactly this program."""
        digest = hashlib.sha256(repr(self.program).encode())
        for file in ("go.mod", "go.sum"):
            digest.update((self.modules.path / file).read_bytes())
        return f"{self.version}-{digest.hexdigest()[:12]}"


def _operator(name: str, module: str, version: str, package: str = "") -> Operator:
    return Operator(ModuleSet(name, (Program(name, module + package, on_demand=True),)), module, version)


# In caches of their own, so that another version of one of them does not have the control plane built again.
OPERATORS = {
    "jobset": _operator("jobset", "sigs.k8s.io/jobset", JOBSET),
    "trainer": _operator("trainer", "github.com/kubeflow/trainer/v2", TRAINER, "/cmd/trainer-controller-manager"),
    "kuberay": _operator("kuberay", "github.com/ray-project/kuberay/ray-operator", KUBERAY),
    "kueue": _operator("kueue", "sigs.k8s.io/kueue", KUEUE, "/cmd/kueue"),
}

_ALL = tuple(program for modules in MODULE_SETS for program in modules.programs)
PROGRAMS = tuple(program.name for program in _ALL if not program.on_demand)
ON_DEMAND = tuple(program.name for program in _ALL if program.on_demand)


def version_key() -> str:
    """A short name for exactly these programs: other versions or other sums give another key, so caches never mix."""
    digest = hashlib.sha256()
    for modules in MODULE_SETS:
        for file in ("go.mod", "go.sum"):
            digest.update((modules.path / file).read_bytes())
        digest.update(repr(modules.programs).encode())
    return f"{KUBERNETES}-{digest.hexdigest()[:12]}"
