"""The manifests as plain values, as they are on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from scheduler.cli.flags import StatedFlags, read_flags

Document = dict[str, Any]

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
BASE = MANIFESTS / "base"
CONFIGURATION = BASE / "scheduler.yaml"


def documents(folder: Path = BASE) -> list[Document]:
    """Every Kubernetes object of a folder, in the order of its kustomization."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    files = [folder / name for name in kustomization["resources"] if name.endswith(".yaml")]
    return [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]


def for_users() -> list[Document]:
    """The objects of ``reader.yaml``: for people who ask the scheduler, not for the scheduler."""
    return list(yaml.safe_load_all((BASE / "reader.yaml").read_text()))


def of_the_scheduler(folder: Path = BASE) -> list[Document]:
    """All the others."""
    return [document for document in documents(folder) if document not in for_users()]


def the(kind: str, folder: Path = BASE) -> Document:
    """The one object of this kind that is of the scheduler itself."""
    (found,) = (document for document in of_the_scheduler(folder) if document["kind"] == kind)
    return found


def pod_spec() -> Document:
    spec: Document = yaml.safe_load((BASE / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    return spec


def container() -> Document:
    (found,) = pod_spec()["containers"]
    return dict(found)


def deployed_flags(*more: str) -> StatedFlags:
    """The Deployment's flags and ``more``, with the configuration file that lies here. Raises ConfigurationError."""
    folder = container()["volumeMounts"][0]["mountPath"]
    return read_flags([argument.replace(f"{folder}/", f"{BASE}/") for argument in container()["args"]] + list(more))
