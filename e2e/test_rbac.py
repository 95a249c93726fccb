"""Promise: the rights in the manifests are enough for everything the scheduler does, and none of them is idle.

The scheduler runs as its own service account, bound as the manifests bind it, through a workload that makes it use
every one of them; the API server's audit log says what it asked for and what it was denied.
"""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import builders, paths
from e2e.client import ApiError, Client, Watch
from e2e.controlplane.cluster import ControlPlane
from e2e.fixtures import administrator
from e2e.room import Room
from e2e.tandem import Tandem
from e2e.test_devices import device_class, gpus

pytestmark = pytest.mark.tandem_only

MANIFESTS = Path(__file__).parent.parent / "manifests"
HOME, ACCOUNT = "tandem-system", "tandem-scheduler"
USER = f"system:serviceaccount:{HOME}:{ACCOUNT}"
SCRAPER = ("prometheus-k8s", "monitoring")
STRANGER = ("default", "monitoring")
LOW, HIGH = "rbac-low", "rbac-high"

Object = builders.Object


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """As a rule grants it; `namespace` and `name` are empty for all."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def covers(self, entry: Object) -> bool:
        """Whether the API server may have let this request of the audit log through by this right."""
        asked = entry.get("objectRef", {})
        resource = "/".join(filter(None, (asked.get("resource"), asked.get("subresource"))))
        return (
            (entry["verb"], asked.get("apiGroup", ""), resource) == (self.verb, self.group, self.resource)
            and self.namespace in ("", asked.get("namespace"))
            and self.name in ("", asked.get("name"))
        )

    def attributes(self) -> Object:
        """As a SubjectAccessReview names it."""
        resource, _, subresource = self.resource.partition("/")
        return {**asdict(self), "resource": resource, "subresource": subresource}


class AuditedControlPlane(ControlPlane):
    """Its audit log holds every request of one user, reads and watches too. Whatever keeps its owner from being deleted
    needs a right to the owner, as on OpenShift."""

    def _audit_options(self) -> tuple[str, ...]:
        options = super()._audit_options()
        rules = [{"level": "Metadata", "users": [USER]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        (self.folder / "audit-policy.yaml").write_text(yaml.safe_dump(policy))
        return *options, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"


SELDOM = {
    Right("get", "", "pods"),
    Right("update", "", "pods/finalizers"),
    Right("get", "resource.k8s.io", "resourceclaims"),
    Right("patch", "resource.k8s.io", "resourceclaims/binding"),
    Right("update", "resource.k8s.io", "resourceclaims"),
    Right("update", "resource.k8s.io", "resourceclaims/status"),
    Right("update", "resource.k8s.io", "resourceclaims/binding"),
}
"""A pod is read only after a conflict of its binding or when a kubelet may have refused it, a claim after a conflict or
a lost answer; ``binding`` is what kube-apiserver asks for within a write of the status, where its gate for it is on,
and ``finalizers`` within the creation of a claim, both no requests of their own; a claim is updated only where drivers'
parameters in it make a patch impossible."""

SWITCHED_ON = {
    Right("list", "scheduling.k8s.io", "podgroups"),
    Right("watch", "scheduling.k8s.io", "podgroups"),
    Right("patch", "scheduling.k8s.io", "podgroups/status"),
    Right("list", "scheduling.x-k8s.io", "podgroups"),
    Right("watch", "scheduling.x-k8s.io", "podgroups"),
    Right("patch", "scheduling.x-k8s.io", "podgroups/status"),
}
"""Groups of pods are off by default; a gate or a setting is all that switches them on. e2e/groups and
test_coscheduling.py use them."""


@pytest.fixture(scope="module")
def controlplane() -> Iterator[ControlPlane]:
    """A control plane of its own for every provider: the audit log of a shared cluster is out of reach."""
    with AuditedControlPlane(audit=True) as controlplane:
        controlplane.kubectl("apply", "-k", str(MANIFESTS / "base"))
        yield controlplane


admin = administrator("module")


@pytest.fixture(scope="module")
def audit(controlplane: ControlPlane, admin: Client, tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    """What the scheduler asked for through a whole life: with budgets as kube-scheduler has them, then strict ones."""
    folder = tmp_path_factory.mktemp("rbac")
    kubeconfig = _kubeconfig_of(controlplane, admin, folder)
    for right in _granted():
        admin.wait_allowed(USER, resourceAttributes=right.attributes())
    admin.create_all([builders.priority_class(LOW, 10), builders.priority_class(HIGH, 1000)])
    with Room(admin, "rbac") as room:
        _refuse_bindings_of(admin, "denied")
        room.add_nodes(builders.node("a", cpu="4"), builders.node("b", cpu="4"))
        with _tandem(kubeconfig, folder / "as-shipped", MANIFESTS / "base" / "scheduler.yaml") as tandem:
            _wait_until_it_leads(admin)
            _place_and_refuse(room)
            _bind_volumes(room)
            _deny_a_binding(room)
            _allocate_devices(room)
            _preempt(room, "a")
            _ask_for_pages(tandem, admin)
        strict = folder / "strict.yaml"
        strict.write_text((MANIFESTS / "base" / "scheduler.yaml").read_text().replace("bestEffort", "strict"))
        with _tandem(kubeconfig, folder / "strict", strict):
            _wait_until_it_leads(admin)
            _preempt(room, "b")
    return controlplane.audit_entries()


def test_nothing_that_the_scheduler_does_is_forbidden(audit: list[Object]) -> None:
    forbidden = {
        (entry["verb"], entry["requestURI"].partition("?")[0])
        for entry in audit
        if entry.get("responseStatus", {}).get("code") in (401, 403)
    }
    assert not forbidden
    assert any(entry["objectRef"].get("subresource") == "binding" for entry in audit if "objectRef" in entry)


def test_every_right_in_the_manifests_is_used(audit: list[Object]) -> None:
    idle = {right for right in _granted() if not any(right.covers(entry) for entry in audit)}
    assert not sorted(idle - SELDOM - SWITCHED_ON)


def test_the_pods_of_the_deployment_are_admitted(controlplane: ControlPlane, admin: Client) -> None:
    """The namespace takes only pods that are confined as the restricted standard asks."""
    with admin.watch("Pod", HOME) as pods:
        assert pods.wait_until(lambda state: len(state) == 2, 20, "two pods of the Deployment")
        assert {pod["spec"]["schedulerName"] for pod in pods.state.values()} == {"default-scheduler"}


# --- what makes the scheduler use its rights --------------------------------------------------------------------------


def _place_and_refuse(room: Room) -> None:
    """Bindings, events, and a refusal that comes back after another one, which makes a series of its event."""
    room.add_pods(*(builders.pod(f"plain-{number}", room.name) for number in range(3)))
    room.wait_bound(3)
    room.add_pods(builders.pod("picky", room.name, cpu="64", nodeSelector={"rbac": "yes"}))
    room.wait_refused("picky")
    _change(room, "b", {"spec": {"unschedulable": True}})
    _change(room, "b", {"metadata": {"labels": {"rbac": "yes"}}})
    room.events.wait_until(lambda _: len(room.events_about("picky")) == 2, 30, "b fits but for being unschedulable")
    _change(room, "b", {"metadata": {"labels": {"rbac": None}}})
    _change(room, "b", {"spec": {"unschedulable": None}})
    room.events.wait_until(lambda _: any(event.get("series") for event in room.events_about("picky")), 30, "a series")


def _change(room: Room, node: str, patch: Object) -> None:
    room.client.patch("Node", node, None, patch)


def _bind_volumes(room: Room) -> None:
    """A volume that is there is claimed; one that is not is asked for, and made by us in the provisioner's stead."""
    classes = {"rbac-static": "kubernetes.io/no-provisioner", "rbac-dynamic": "tandem.test/pretended"}
    for name, provisioner in classes.items():
        room.add_cluster_object(
            {
                "kind": "StorageClass",
                "apiVersion": "storage.k8s.io/v1",
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        )
        room.client.create(_claim(name, room.name))
    room.add_cluster_object(_volume("rbac-static"))
    room.add_pods(*(_pod_with_claim(name, room.name) for name in classes))
    room.wait_placed("rbac-static", "b")
    with room.client.watch("PersistentVolumeClaim", room.name) as claims:
        key = f"{room.name}/rbac-dynamic"
        claims.wait_until(lambda state: _selected_node(state[key]), 20, "a selected node")
        claim = claims.state[key]["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": room.name, "name": claim["name"], "uid": claim["uid"]}
    room.add_cluster_object(_volume("rbac-dynamic", claimRef=reference))
    room.wait_bound(5, 60)


def _deny_a_binding(room: Room) -> None:
    """Denied by policy: the scheduler reports the failure."""
    room.add_pods(builders.pod("denied", room.name))
    events = room.wait_events("denied", "FailedScheduling")
    assert "tandem-e2e-rbac" in events[0]["note"]
    room.client.delete("Pod", "denied", room.name)


def _allocate_devices(room: Room) -> None:
    """A claim that the scheduler makes for an extended resource, and one that it deletes after a denied bind."""
    resource = f"example.com/{room.name}"
    room.add_cluster_object(device_class(room, extendedResourceName=resource))
    room.add_cluster_object(gpus("a", 4))
    names = ("with-devices", "denied-devices")
    with room.client.watch("ResourceClaim", room.name) as claims:
        for name in names:
            pod = builders.pod(name, room.name)
            pod["spec"]["containers"][0].setdefault("resources", {}).update(
                requests={resource: "1"}, limits={resource: "1"}
            )
            room.add_pods(pod)
        room.wait_placed(names[0], "a")
        # Before its pod goes: the garbage collector would delete the claim then.
        claims.wait_until(lambda _: names[1] in _owners_of_deleted(claims), 30, "the denied bind's claim deleted")
    room.client.delete("Pod", names[1], room.name)


def _preempt(room: Room, node: str) -> None:
    victim, winner = f"victim-on-{node}", f"winner-on-{node}"
    where = {"kubernetes.io/hostname": node}
    room.add_pods(builders.pod(victim, room.name, cpu="3", priorityClassName=LOW, nodeSelector=where))
    room.wait_placed(victim, node)
    room.add_pods(builders.pod(winner, room.name, cpu="3", priorityClassName=HIGH, nodeSelector=where))
    room.wait_placed(winner, node)
    room.client.delete("Pod", winner, room.name)


def _ask_for_pages(tandem: Tandem, admin: Client) -> None:
    """Metrics are only for the accounts that the monitoring overlay names."""
    (binding,) = yaml.safe_load_all((MANIFESTS / "overlays" / "monitoring" / "metrics-reader.yaml").read_text())
    for thing in (builders.namespace("monitoring"), *map(_account, (SCRAPER, STRANGER)), binding):
        _ensure(admin, thing)
    scraper = f"system:serviceaccount:{SCRAPER[1]}:{SCRAPER[0]}"
    admin.wait_allowed(scraper, nonResourceAttributes={"verb": "get", "path": "/metrics"})
    assert _status(tandem, "/metrics", _token(admin, *SCRAPER)) == 200
    assert _status(tandem, "/metrics", _token(admin, *STRANGER)) == 403
    assert _status(tandem, "/livez", "") == 200


# --- parts ------------------------------------------------------------------------------------------------------------


def _granted() -> set[Right]:
    return {
        Right(verb, group, resource, role["metadata"].get("namespace", ""), name)
        for role in yaml.safe_load_all((MANIFESTS / "base" / "roles.yaml").read_text())
        for rule in role.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def _tandem(kubeconfig: Path, folder: Path, configuration: Path) -> Tandem:
    """As it is deployed: a Lease, HTTPS, the shipped configuration."""
    folder.mkdir()
    options = (f"--config={configuration}", "--leader-elect=true", "--serving-http=false")
    tandem = Tandem(kubeconfig, folder, options=options)
    tandem.scheme = "https"
    return tandem


def _kubeconfig_of(controlplane: ControlPlane, admin: Client, folder: Path) -> Path:
    """The admin's kubeconfig with the service account's token in place of his own."""
    config = yaml.safe_load(controlplane.kubeconfig().read_text())
    for user in config["users"]:
        user["user"] = {"token": _token(admin, ACCOUNT, HOME)}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def _token(admin: Client, name: str, namespace: str) -> str:
    spec = {"expirationSeconds": 3600}
    request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}
    answer = admin.post(f"{paths.one('ServiceAccount', name, namespace)}/token", request)
    return str(answer["status"]["token"])


def _account(who: tuple[str, str]) -> Object:
    name, namespace = who
    return {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace}}


def _ensure(admin: Client, thing: Object) -> None:
    try:
        admin.create(thing)
    except ApiError as error:
        if error.status != 409:
            raise


def _wait_until_it_leads(admin: Client) -> None:
    def is_held(state: dict[str, Object]) -> bool:
        return any(lease["spec"].get("holderIdentity") for lease in state.values())

    with admin.watch("Lease", HOME) as leases:
        leases.wait_until(is_held, 30, "a holder of the Lease")


def _refuse_bindings_of(admin: Client, pod: str) -> None:
    """A policy that denies the binding of pods whose names begin so; in force when this returns."""
    kind, name = "ValidatingAdmissionPolicy", "tandem-e2e-rbac"
    group = "/apis/admissionregistration.k8s.io/v1"
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    expression = f"!object.metadata.name.startsWith('{pod}')"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    admin.post(f"{group}/validatingadmissionpolicies", {"kind": kind, **head, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    admin.post(f"{group}/validatingadmissionpolicybindings", {"kind": f"{kind}Binding", **head, "spec": binding})
    probe = f"{pod}-probe"
    admin.create(builders.pod(probe, "default", scheduler="absent"))
    target = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": probe}, "target": {"name": "nowhere"}}
    deadline = time.monotonic() + 30
    while True:
        try:
            admin.post(f"{paths.one('Pod', probe, 'default')}/binding?dryRun=All", target)
        except ApiError as error:
            if error.status == 422:
                break
            raise
        assert time.monotonic() < deadline, "the policy does not come into force"
        time.sleep(0.1)
    admin.delete("Pod", probe, "default")


def _claim(name: str, namespace: str) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": name}
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": metadata, "spec": spec}


def _volume(name: str, **spec: Any) -> Object:
    """A local volume of node b, in the class of its name."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}
    rest: Object = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": name,
        "hostPath": {"path": "/nowhere"},
    }
    if "claimRef" not in spec:
        rest["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name}, "spec": {**rest, **spec}}


def _pod_with_claim(claim: str, namespace: str) -> Object:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return builders.pod(claim, namespace, volumes=[volume])


def _owners_of_deleted(claims: Watch) -> set[str]:
    gone = (seen.thing for seen in claims.history if seen.type == "DELETED")
    return {owner["name"] for claim in gone for owner in claim["metadata"]["ownerReferences"]}


def _selected_node(claim: Object) -> str:
    return str(claim["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node", ""))


def _status(tandem: Tandem, path: str, token: str) -> int:
    request = urllib.request.Request(f"https://127.0.0.1:{tandem.port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    # Its certificate is one that it made for itself.
    context = ssl._create_unverified_context()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
