"""Promise: the Helm chart makes what the kustomize base makes, and what it makes is a scheduler that works."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import builders
from e2e.client import Client
from e2e.controlplane import build
from e2e.identities import service_account_kubeconfig
from e2e.peer import KubeScheduler
from e2e.provider import Cluster
from e2e.room import Room
from e2e.tandem import Tandem

pytestmark = pytest.mark.tandem_only

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts" / "tandem-scheduler"
HOME = "tandem-system"
COMMON = ("app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/part-of")
HELMS_OWN = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart")

PROFILE = "configuration.kubeScheduler.profiles[0]"
LEASE_NAME = "--set=configuration.kubeScheduler.leaderElection.resourceName"
LEASE_IN_KUBE_SYSTEM = "--set=configuration.kubeScheduler.leaderElection.resourceNamespace=kube-system"

Helm = Callable[..., str]
Object = dict[str, Any]


@pytest.fixture(scope="module")
def programs() -> Path:
    return build.programs(also=("helm",))


@pytest.fixture(scope="module")
def helm(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm with folders of its own. Raises CalledProcessError, with its words in ``stderr``."""
    home = tmp_path_factory.mktemp("helm")
    environment = dict(os.environ) | {f"HELM_{kind}_HOME": str(home / kind) for kind in ("CACHE", "CONFIG", "DATA")}

    def call(*arguments: str) -> str:
        command = [str(programs / "helm"), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=180, env=environment).stdout

    return call


def test_helm_has_no_fault_to_find(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_it_is_packaged_with_the_files_that_it_links(helm: Helm, tmp_path: Path) -> None:
    helm("package", str(CHART), f"--destination={tmp_path}")
    (package,) = tmp_path.glob("tandem-scheduler-*.tgz")
    from_package = helm("template", "tandem", str(package), f"--namespace={HOME}")
    assert _objects(from_package) == _objects(helm("template", "tandem", str(CHART), f"--namespace={HOME}"))


def test_with_its_defaults_the_chart_makes_what_the_base_makes(helm: Helm, programs: Path) -> None:
    made = _objects(helm("template", "tandem", str(CHART), f"--namespace={HOME}"))
    base = _objects(_kustomize(programs, "manifests/base"))
    assert base.pop(("Namespace", "", HOME)), "Helm makes the namespace itself, with --create-namespace"
    assert made == base


def test_with_monitoring_it_makes_what_the_overlay_makes(helm: Helm, programs: Path) -> None:
    wanted = [f"--set=monitoring.{part}=true" for part in ("serviceMonitor", "alerts", "dashboard")]
    made = _objects(helm("template", "tandem", str(CHART), f"--namespace={HOME}", *wanted))
    overlay = _objects(_kustomize(programs, "manifests/overlays/monitoring"))
    del overlay["Namespace", "", HOME]
    # The labels that the base gives its own objects are not on those of the overlay.
    for thing in (*made.values(), *overlay.values()):
        for label in COMMON:
            thing["metadata"].get("labels", {}).pop(label, None)
        if not thing["metadata"].get("labels", True):
            del thing["metadata"]["labels"]
    assert made == overlay


def test_another_name_and_namespace_leave_nothing_under_the_usual_ones(helm: Helm) -> None:
    everything = [f"--set=monitoring.{part}=true" for part in ("serviceMonitor", "alerts")]
    text = helm("template", "second", str(CHART), "--namespace=elsewhere", "--set=name=second", *everything)
    for (_kind, namespace, name), made in _objects(text).items():
        assert namespace in ("", "elsewhere", "kube-system")
        assert name.startswith("second") or name in ("tandem-reader", "tandem-user")
        assert HOME not in yaml.safe_dump(made)


@pytest.mark.parametrize("options", [["--namespace=kube-system"], ["--namespace=tandem", LEASE_IN_KUBE_SYSTEM]])
def test_in_kube_system_the_role_of_the_lease_is_one_beside_that_of_the_pages(helm: Helm, options: list[str]) -> None:
    objects = [thing for thing in yaml.safe_load_all(helm("template", "tandem", str(CHART), *options)) if thing]
    made = _objects(yaml.safe_dump_all(objects))
    assert len(made) == len(objects), "two objects of one name: the second would replace the first"
    readers = [key for key in made if key[0] == "Role" and key[2].endswith("-user")]
    away = LEASE_IN_KUBE_SYSTEM in options
    assert (("Role", "kube-system", "tandem-scheduler-user") in readers) == away
    ours, lease = (made["Role", "kube-system", f"tandem-scheduler{end}"] for end in ("", "-lease"))
    assert [rule["resources"] for rule in ours["rules"]] == [["configmaps"]]
    assert [rule["resources"] for rule in lease["rules"]] == [["leases"], ["leases"]]
    for end in ("", "-lease"):
        assert (
            made["RoleBinding", "kube-system", f"tandem-scheduler{end}"]["roleRef"]["name"] == f"tandem-scheduler{end}"
        )


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("replicaz=3", "replicaz"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("replicas=two", "replicas"),
        ("configuration.kubeScheduler.profiles=null", "profiles"),
        ("image.digest=latest", "digest"),
        ("rbac=null", "rbac"),
        ("configuration.kubeScheduler=null", "kubeScheduler"),
        ("configuration.kubeScheduler.profile=x", "'profile' not allowed"),
        ("configuration.kubeScheduler.leaderElection.leaderElect=perhaps", "leaderElect"),
        ("configuration.kubeScheduler.leaderElection.leaderElect=false", "replicas: without leader election"),
        ("extraArgs={--leader-elect=false}", "replicas: without leader election"),
        ("configuration.tandem.preemption.pdbPolicy=Strict", "pdbPolicy"),
        ("configuration.tandem.limits.queuedWrites=0", "queuedWrites"),
        ("configuration.tandem.preemption.breaker.window=5x", "breaker/window"),
        (r"podLabels.app\.kubernetes\.io/name=other", "podLabels: app.kubernetes.io/name"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_its_name(helm: Helm, setting: str, named: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        helm("template", "tandem", str(CHART), f"--set={setting}")
    assert named in refused.value.stderr


def test_kube_scheduler_s_own_lease_is_refused(helm: Helm) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        helm("template", "tandem", str(CHART), LEASE_IN_KUBE_SYSTEM, f"{LEASE_NAME}=kube-scheduler")
    assert "leaderElection.resourceName: the Lease kube-system/kube-scheduler" in refused.value.stderr


@pytest.mark.parametrize(
    "setting",
    [
        "configuration.tandem=null",
        "configuration.kubeScheduler.leaderElection=null",
        "configuration.tandem.preemption.nominationTimeout=0",
        "configuration.tandem.limits.journalEntries=5",
        "replicas=1,configuration.kubeScheduler.leaderElection.leaderElect=false",
        f"{PROFILE}.schedulerName=a,{PROFILE}.plugins.filter.disabled[0].name=NodePorts",
        f"{PROFILE}.schedulerName=a,{PROFILE}.pluginConfig[0].args.anything=1",
    ],
)
def test_what_a_configuration_may_state_is_not_refused(helm: Helm, setting: str) -> None:
    assert helm("template", "tandem", str(CHART), f"--set={setting}")


def test_without_leader_election_an_update_leaves_no_two_copies_beside_each_other(helm: Helm) -> None:
    alone = "--set=replicas=1,configuration.kubeScheduler.leaderElection.leaderElect=false"
    made = _objects(helm("template", "tandem", str(CHART), f"--namespace={HOME}", alone))
    assert made["Deployment", HOME, "tandem-scheduler"]["spec"]["strategy"] == {"type": "Recreate"}


def test_an_annotation_of_the_pods_that_the_chart_has_too_is_there_once(helm: Helm) -> None:
    setting = r"--set=podAnnotations.kubectl\.kubernetes\.io/default-container=other"
    text = helm("template", "tandem", str(CHART), "--show-only=templates/deployment.yaml", setting)
    assert re.findall(r"kubectl.kubernetes.io/default-container: (\w+)", text) == ["other"]


def test_every_value_that_can_be_set_reaches_an_object(helm: Helm, tmp_path: Path) -> None:
    values = {
        "image": {"repository": "r.test/x", "digest": f"sha256:{'0' * 64}", "pullSecrets": [{"name": "registry"}]},
        "shadow": True,
        "extraArgs": ["--tracing"],
        "extraEnv": [{"name": "OTEL_TRACES_SAMPLER", "value": "always_on"}],
        "extraVolumes": [{"name": "plugins", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "plugins", "mountPath": "/plugins"}],
        "pages": {"port": 10300, "tlsSecret": "pages"},
        "nodeSelector": {"pool": "system"},
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"note": "yes"},
        "podLabels": {"team": "infra"},
        "serviceAccountAnnotations": {"role": "arn"},
        "priorityClass": {"create": False, "name": "system-cluster-critical"},
        "disruptionBudget": {"create": False},
        "networkPolicy": {"apiServerPorts": [8443], "extraEgress": [{"ports": [{"port": 8888}]}]},
        "rbac": {"reader": False},
    }
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    made = _objects(helm("template", "tandem", str(CHART), f"--namespace={HOME}", f"--values={file}"))
    kinds = {kind for kind, _, _ in made}
    assert not kinds & {"PriorityClass", "PodDisruptionBudget"}
    assert ("ServiceAccount", HOME, "tandem-reader") not in made
    deployment = yaml.safe_dump(made["Deployment", HOME, "tandem-scheduler"])
    for text in (
        f"r.test/x@sha256:{'0' * 64}",
        "name: registry",
        "- --shadow",
        "- --tracing",
        "OTEL_TRACES_SAMPLER",
        "mountPath: /plugins",
        "--secure-port=10300",
        "containerPort: 10300",
        "secretName: pages",
        "--tls-cert-file=/etc/tandem-tls/tls.crt",
        "pool: system",
        "nodeAffinity",
        "note: 'yes'",
        "team: infra",
        "priorityClassName: system-cluster-critical",
    ):
        assert text in deployment, text
    assert made["ServiceAccount", HOME, "tandem-scheduler"]["metadata"]["annotations"] == {"role": "arn"}
    policy = yaml.safe_dump(made["NetworkPolicy", HOME, "tandem-scheduler"])
    assert "8443" in policy and "8888" in policy


@pytest.fixture
def namespace(client: Client) -> Iterator[str]:
    """A namespace that admits only pods that are confined as the restricted standard asks."""
    name = "chart"
    thing = builders.namespace(name)
    thing["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.create(thing)
    yield name
    client.delete("Namespace", name)


def test_what_the_chart_installs_runs_and_places_pods(
    helm: Helm, cluster: Cluster, client: Client, room: Room, peer: KubeScheduler, namespace: str, tmp_path: Path
) -> None:
    """The Deployment's pods are placed by kube-scheduler and pretended to run; the scheduler itself runs here, as the
    service account, with the configuration and under the Lease that the chart made."""
    room.add_nodes(builders.node("a", cpu="4"), builders.node("b", cpu="4"))
    target = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace}")
    options = ("--set=name=charted", "--set=rbac.reader=true")
    helm("install", "tandem", str(CHART), *target, *options, "--wait", "--timeout=60s")
    try:
        config = tmp_path / "scheduler.yaml"
        config.write_text(client.get("ConfigMap", "charted", namespace)["data"]["scheduler.yaml"])
        kubeconfig = service_account_kubeconfig(client, cluster.kubeconfig, "charted", namespace, tmp_path)
        flags = (f"--config={config}", "--leader-elect=true", "--serving-http=false")
        tandem = Tandem(kubeconfig, tmp_path, options=flags)
        tandem.scheme = "https"
        with tandem:
            room.add_pods(builders.pod("p", room.name))
            room.wait_bound(1)
            assert client.get("Lease", "charted", namespace)["spec"]["holderIdentity"]
            assert "Missing rights" not in tandem.log()
        helm(
            "upgrade", "tandem", str(CHART), *target, *options, "--set=configuration.tandem.preemption.pdbPolicy=strict"
        )
        assert "pdbPolicy: strict" in client.get("ConfigMap", "charted", namespace)["data"]["scheduler.yaml"]
    finally:
        helm("uninstall", "tandem", *target, "--wait")
    assert "charted" not in {thing["metadata"]["name"] for thing in client.list("Deployment", namespace)}


def _kustomize(programs: Path, folder: str) -> str:
    command = [str(programs / "kubectl"), "kustomize", str(ROOT / folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def _objects(text: str) -> dict[tuple[str, str, str], Object]:
    """(kind, namespace, name) -> the object without Helm's labels, its configuration as values."""
    found = {}
    for thing in filter(None, yaml.safe_load_all(text)):
        labels = thing["metadata"].get("labels", {})
        for label in HELMS_OWN:
            labels.pop(label, None)
        for key, value in thing.get("data", {}).items():
            thing["data"][key] = list(yaml.safe_load_all(value))
        where = thing["metadata"].get("namespace", "")
        assert (thing["kind"], where, thing["metadata"]["name"]) not in found
        found[thing["kind"], where, thing["metadata"]["name"]] = thing
    return found
