"""The manifests as a whole: nothing is missing, nothing is left over, names and labels meet."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from scheduler.config.loading import load
from tests.manifests.documents import BASE, MANIFESTS, Document, documents, pod_spec, the

SEVERAL = MANIFESTS / "overlays" / "several"
SCOPES = ("red", "green")
FOLDERS = (BASE, MANIFESTS / "overlays" / "kind", MANIFESTS / "overlays" / "monitoring")
NAME = "tandem-scheduler"


def kustomization(folder: Path) -> Document:
    read: Document = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return read


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_file_of_a_folder_is_named_in_its_kustomization(folder: Path) -> None:
    read = kustomization(folder)
    named = {name for name in read["resources"] if not name.startswith("..")}
    generated = {name.rpartition("=")[2] for made in read.get("configMapGenerator", ()) for name in made["files"]}
    there = {file.name for file in folder.iterdir()} - {"kustomization.yaml"}
    assert named | generated == there


def test_every_folder_with_a_kustomization_is_checked_here() -> None:
    several = {SEVERAL, SEVERAL / "people", *(SEVERAL / scope for scope in SCOPES)}
    assert {file.parent for file in MANIFESTS.rglob("kustomization.yaml")} == set(FOLDERS) | several


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_object_has_a_version_a_kind_and_a_name(folder: Path) -> None:
    for document in documents(folder):
        assert document["apiVersion"] and document["kind"] and document["metadata"]["name"]


def test_each_namespaced_object_says_where_it_belongs() -> None:
    at_home = {"Deployment", "ServiceAccount", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    home = the("Namespace")["metadata"]["name"]
    for document in documents():
        if document["kind"] in at_home:
            assert document["metadata"]["namespace"] == home, document["kind"]
    for folder in FOLDERS:
        for made in kustomization(folder).get("configMapGenerator", ()):
            assert made["namespace"] == home


def test_every_selector_of_the_pods_matches_their_labels() -> None:
    deployment = the("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()
    selectors = [
        deployment["selector"]["matchLabels"],
        the("Service")["spec"]["selector"],
        the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        the("NetworkPolicy", MANIFESTS / "overlays" / "monitoring")["spec"]["podSelector"]["matchLabels"],
        *(spread["labelSelector"]["matchLabels"] for spread in pod_spec()["topologySpreadConstraints"]),
    ]
    for selector in selectors:
        assert selector.items() <= labels
        assert selector == {"app.kubernetes.io/name": NAME}


def test_every_object_reference_names_an_object_that_exists() -> None:
    spec = pod_spec()
    assert spec["serviceAccountName"] == the("ServiceAccount")["metadata"]["name"]
    assert spec["priorityClassName"] == the("PriorityClass")["metadata"]["name"]
    generated = {made["name"] for made in kustomization(BASE)["configMapGenerator"]}
    assert {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume} <= generated
    for overlay in FOLDERS[1:]:
        for patch in kustomization(overlay).get("patches", ()):
            assert the(patch["target"]["kind"])["metadata"]["name"] == patch["target"]["name"]


def test_the_configuration_keeps_its_name_and_reaches_a_running_scheduler() -> None:
    """A file mounted by ``subPath`` is never renewed; under another name it would be a new one."""
    (made,) = kustomization(BASE)["configMapGenerator"]
    assert made["options"] == {"disableNameSuffixHash": True}
    (container,) = pod_spec()["containers"]
    assert all("subPath" not in mount for mount in container["volumeMounts"])


def test_no_other_key_of_the_config_map_becomes_a_file() -> None:
    for volume in pod_spec()["volumes"]:
        if "configMap" in volume:
            assert volume["configMap"]["items"] == [{"key": "scheduler.yaml", "path": "scheduler.yaml"}]


def test_ports_that_are_called_by_name_have_that_name() -> None:
    (container,) = pod_spec()["containers"]
    ports = {port["name"] for port in container["ports"]}
    rules = [*the("NetworkPolicy")["spec"]["ingress"], *_monitoring_ingress()]
    called = {
        container["livenessProbe"]["httpGet"]["port"],
        container["readinessProbe"]["httpGet"]["port"],
        *(port["targetPort"] for port in the("Service")["spec"]["ports"]),
        *(port["port"] for rule in rules for port in rule["ports"]),
    }
    assert called == ports


def _monitoring_ingress() -> list[Document]:
    ingress: list[Document] = the("NetworkPolicy", MANIFESTS / "overlays" / "monitoring")["spec"]["ingress"]
    return ingress


def test_the_kind_overlay_replaces_fields_that_are_there() -> None:
    (patch,) = kustomization(MANIFESTS / "overlays" / "kind")["patches"]
    for change in yaml.safe_load(patch["patch"]):
        place: object = the("Deployment")
        for step in change["path"].strip("/").split("/"):
            place = place[int(step)] if isinstance(place, list) else place[step]  # type: ignore[index]
        assert change["op"] == "replace" and place != change["value"]


def test_images_that_overlays_rename_are_the_deployments() -> None:
    (container,) = pod_spec()["containers"]
    for image in kustomization(MANIFESTS / "overlays" / "kind")["images"]:
        assert container["image"].partition(":")[0] == image["name"]


# --- several schedulers on one cluster --------------------------------------------------------------------------------


def _role_patch(folder: Path, name: str) -> tuple[str, object]:
    """The path and the value that the patch of a Role has."""
    (patch,) = [
        patch
        for patch in kustomization(folder)["patches"]
        if patch["target"].get("kind") == "Role" and patch["target"]["name"] == name
    ]
    (change,) = yaml.safe_load(patch["patch"])
    return change["path"], change["value"]


def test_each_of_several_has_a_lease_a_name_and_nodes_that_no_other_has() -> None:
    leases, names, labels = [], [], []
    for scope in SCOPES:
        loaded = load((SEVERAL / scope / "scheduler.yaml").read_text())
        leases.append(loaded.kube.leader_election.resource_name)
        assert loaded.kube.leader_election.resource_namespace == the("Namespace")["metadata"]["name"]
        (profile,) = loaded.kube.profiles
        names.append(profile.scheduler_name)
        ((scheduler, selector),) = loaded.tandem.node_scope.items()
        assert scheduler == profile.scheduler_name
        assert not selector.match_expressions
        labels.append(selector.match_labels)
    assert len(set(leases)) == len(set(names)) == len(SCOPES)
    assert all(label.keys() == labels[0].keys() for label in labels), "values of one label can't overlap"
    assert len({tuple(label.values()) for label in labels}) == len(SCOPES)


def test_the_roles_of_several_name_the_leases_that_they_have() -> None:
    leases = [f"{NAME}-{scope}" for scope in SCOPES]
    for scope, lease in zip(SCOPES, leases, strict=True):
        assert _role_patch(SEVERAL / scope, NAME) == ("/rules/1/resourceNames", [lease])
        assert kustomization(SEVERAL / scope)["nameSuffix"] == f"-{scope}"
    assert _role_patch(SEVERAL / "people", "tandem-user") == ("/rules/0/resourceNames", leases)
    assert set(kustomization(SEVERAL)["resources"]) == {"people", *SCOPES}


def test_the_selectors_of_several_do_not_select_each_others_pods() -> None:
    for scope in SCOPES:
        (labels,) = kustomization(SEVERAL / scope)["labels"]
        assert labels == {"pairs": {"app.kubernetes.io/name": f"{NAME}-{scope}"}, "includeSelectors": True}
