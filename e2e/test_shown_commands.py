"""Promise: the kubectl and helm commands that the pages show do on a real cluster what the pages say."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import builders
from e2e.client import Client
from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.fixtures import administrator

pytestmark = pytest.mark.tandem_only

ROOT = Path(__file__).parent.parent
HERE = f"e2e/{Path(__file__).name}"
GROUP, NODE, POD = "team", "a", "trained"
NAMES = {"YOUR-GROUP": GROUP, "NODE": NODE, "POD": POD}
"""What the pages leave to the reader."""
OPERATOR = "monitoring.coreos.com"
HOME, SEVERAL = "tandem-system", "docs/several.md"
CUSTOM_KINDS = {"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"}
"""Of the Prometheus operator, and their plurals."""
SECONDS = 120.0

Run = Callable[[str, str], str]


@pytest.fixture(scope="module")
def controlplane() -> Iterator[ControlPlane]:
    """One of its own: the shipped names are cluster-wide."""
    with ControlPlane(features=("GenericWorkload",), apis=("scheduling.k8s.io/v1alpha2",)) as controlplane:
        yield controlplane


admin = administrator("module")


@pytest.fixture(scope="module")
def run(controlplane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the block of a page that begins with a command, as it stands there; returns what it printed.

    Raises CalledProcessError, with its words in ``stderr``."""
    folder = tmp_path_factory.mktemp("home")
    programs = build.programs(also=("helm",))
    environment = dict(os.environ) | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(controlplane.kubeconfig()),
        **{f"HELM_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "CONFIG", "DATA")},
    }

    def call(page: str, begin: str) -> str:
        found = [text for text in _blocks(page) if text.startswith(begin)]
        assert len(found) == 1, f"{page}: {len(found)} blocks begin with {begin!r}"
        script = re.sub("|".join(NAMES), lambda name: NAMES[name.group()], found[0])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            check=False, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    return call


def _blocks(page: str) -> list[str]:
    """Those that are marked as run here."""
    pattern = rf"^<!-- run by {re.escape(HERE)} -->\n```sh\n(.*?)^```$"
    return re.findall(pattern, (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def _definition(kind: str, plural: str) -> builders.Object:
    """Of a custom kind of the operator that takes any field."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{OPERATOR}"},
        "spec": {
            "group": OPERATOR,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def _may(controlplane: ControlPlane, *words: str) -> bool:
    """Whether a member of the group may do this."""
    asked = ("auth", "can-i", *words, "--as=someone", f"--as-group={GROUP}")
    done = subprocess.run(
        [str(controlplane.programs / "kubectl"), f"--kubeconfig={controlplane.kubeconfig()}", *asked],
        check=False, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    return done.stdout.strip() == "yes"


def test_a_lost_name_of_a_group_is_found_by_the_command_for_it(run: Run, admin: Client) -> None:
    pod = builders.pod(POD, "default")
    pod["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    admin.create(pod)
    assert run("docs/groups.md", "kubectl get pod POD") == "train"


def test_it_is_installed_with_its_alerts_opened_to_a_group_and_removed(
    run: Run, admin: Client, controlplane: ControlPlane, tmp_path: Path
) -> None:
    page = "docs/operations.md"
    for kind, plural in CUSTOM_KINDS.items():
        (tmp_path / plural).write_text(json.dumps(_definition(kind, plural)))
        controlplane.kubectl("apply", f"--filename={tmp_path / plural}")
        controlplane.kubectl("wait", "--for=condition=Established", f"crd/{plural}.{OPERATOR}")
    controlplane.kubectl("create", "namespace", "monitoring")
    made = run(page, "kubectl apply -k manifests/overlays/monitoring")
    assert f"prometheusrule.{OPERATOR}/tandem-scheduler created" in made
    assert admin.get("Deployment", "tandem-scheduler", HOME)["spec"]["replicas"] == 2
    assert not _may(controlplane, "get", "/metrics")
    run(page, "kubectl create clusterrole tandem-viewer")
    assert _may(controlplane, "get", "/metrics") and _may(controlplane, "get", "/debug/queue")
    asking = ("create", "serviceaccounts/tandem-reader", "--subresource=token", f"--namespace={HOME}")
    assert not _may(controlplane, *asking)
    run(page, "kubectl -n tandem-system create rolebinding")
    assert _may(controlplane, *asking)
    run(page, "kubectl delete -k manifests/base")
    left = _names(controlplane, "clusterroles,clusterrolebindings,namespaces,priorityclasses")
    others = {"tandem-viewer", "tandem-scheduler-metrics"}
    assert {name.partition("/")[2] for name in left if "tandem" in name} == others, "of the user, and of the overlay"


def test_several_are_installed_by_their_overlay_or_each_as_a_release(
    run: Run, admin: Client, controlplane: ControlPlane
) -> None:
    admin.create(builders.node(NODE))
    run(SEVERAL, "kubectl label node NODE")
    assert admin.get("Node", NODE)["metadata"]["labels"]["tandem.scheduling/scope"] == "red"
    deployments = _names(controlplane, "deployments", f"--namespace={HOME}")
    assert deployments == ["deployment.apps/tandem-scheduler-green", "deployment.apps/tandem-scheduler-red"]
    run(SEVERAL, "helm install tandem-red")
    assert _names(controlplane, "deployments", "--namespace=tandem-red") == ["deployment.apps/tandem-red"]


def _names(controlplane: ControlPlane, kind: str, *words: str) -> list[str]:
    return controlplane.kubectl("get", kind, "--output=name", *words).split()
