"""Users with exactly the rights a test grants: service accounts, which every cluster can make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e import paths
from e2e.client import ApiError, Client

HOME = "tandem-e2e-users"
Rule = dict[str, Any]

_READ = ["get", "list", "watch"]


def _rule(group: str, resources: str, verbs: Sequence[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}


# What kube-scheduler 1.36 may do by the default ClusterRoles system:kube-scheduler and system:volume-scheduler, leases
# and dynamic resources included.
REFERENCE_RULES: tuple[Rule, ...] = (
    _rule("", "events", ["create", "patch", "update"]),
    _rule("events.k8s.io", "events", ["create", "patch", "update"]),
    _rule("", "nodes namespaces services replicationcontrollers", _READ),
    _rule("", "persistentvolumes persistentvolumeclaims", [*_READ, "patch", "update"]),
    _rule("", "pods", [*_READ, "delete"]),
    _rule("", "pods/binding bindings", ["create"]),
    _rule("", "pods/status", ["patch", "update"]),
    _rule("apps", "replicasets statefulsets", _READ),
    _rule("policy", "poddisruptionbudgets", _READ),
    _rule("storage.k8s.io", "csinodes csidrivers csistoragecapacities volumeattachments storageclasses", _READ),
    _rule("resource.k8s.io", "deviceclasses resourceslices", _READ),
    _rule("resource.k8s.io", "resourceclaims resourceclaims/status", [*_READ, "patch", "update"]),
    _rule("coordination.k8s.io", "leases", ["create", "get", "list", "watch", "update"]),
    _rule("", "configmaps", _READ),
)


def shipped_rules() -> tuple[Rule, ...]:
    """The rules of the scheduler's own ClusterRole and Roles in our manifests; those for people are not among them."""
    file = Path(__file__).parent.parent / "manifests" / "base" / "roles.yaml"
    roles = [one for one in yaml.safe_load_all(file.read_text()) if one["kind"] in ("ClusterRole", "Role")]
    return tuple(rule for role in roles for rule in role["rules"])


def without(rules: Sequence[Rule], verb: str, resource: str) -> tuple[Rule, ...]:
    """The same rules, but for one verb on one resource. Raises ValueError when they never granted it."""
    kept: list[Rule] = []
    for rule in rules:
        if resource in rule["resources"] and verb in rule["verbs"]:
            others = [other for other in rule["resources"] if other != resource]
            verbs = [other for other in rule["verbs"] if other != verb]
            kept += [{**rule, "resources": others}] if others else []
            kept += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
        else:
            kept.append(rule)
    if kept == list(rules):
        raise ValueError(f"the rules never granted {verb} {resource}")
    return tuple(kept)


class Identities:
    """Makes users of one cluster and writes their kubeconfig files into `folder`."""

    def __init__(self, client: Client, admin: Path, folder: Path) -> None:
        self._client = client
        self._admin = admin
        self._folder = folder
        self._made: dict[str, tuple[tuple[Rule, ...], Path]] = {}

    def kubeconfig(self, name: str, rules: Sequence[Rule]) -> Path:
        """The path of a kubeconfig for a user of this name with just these rights, in all namespaces."""
        known = self._made.get(name)
        if known is None or known[0] != tuple(rules):
            # Made once: a process that runs as this user must not lack its rights even for a moment.
            known = self._made[name] = (tuple(rules), self._make(name, rules))
        return known[1]

    def _make(self, name: str, rules: Sequence[Rule]) -> Path:
        self._ensure({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": HOME}})
        self._ensure({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": name, "namespace": HOME}})
        role, group = f"tandem-e2e:{name}", "rbac.authorization.k8s.io"
        api = f"{group}/v1"
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            self._client.delete(kind, role)
        self._client.create(
            {"kind": "ClusterRole", "apiVersion": api, "metadata": {"name": role}, "rules": list(rules)},
        )
        self._client.create(
            {
                "kind": "ClusterRoleBinding",
                "apiVersion": api,
                "metadata": {"name": role},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": HOME}],
            }
        )
        self._wait_until_in_force(name, rules)
        return service_account_kubeconfig(self._client, self._admin, name, HOME, self._folder)

    def _wait_until_in_force(self, name: str, rules: Sequence[Rule]) -> None:
        for rule in rules:
            resource, _, subresource = rule["resources"][0].partition("/")
            attributes = {
                "group": rule["apiGroups"][0],
                "resource": resource,
                "subresource": subresource,
                "verb": rule["verbs"][0],
                "name": rule.get("resourceNames", [""])[0],
                "namespace": HOME,
            }
            self._client.wait_allowed(f"system:serviceaccount:{HOME}:{name}", resourceAttributes=attributes)

    def _ensure(self, thing: dict[str, Any]) -> None:
        try:
            self._client.create(thing)
        except ApiError as error:
            if error.status != 409:
                raise


def service_account_kubeconfig(client: Client, admin: Path, name: str, namespace: str, folder: Path) -> Path:
    """The admin's kubeconfig with a token of this service account in place of his own, as a file in `folder`."""
    path = f"{paths.one('ServiceAccount', name, namespace)}/token"
    request = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "spec": {"expirationSeconds": 7200},
    }
    token = client.post(path, request)["status"]["token"]
    config = yaml.safe_load(admin.read_text())
    context = next(c for c in config["contexts"] if c["name"] == config["current-context"])["context"]
    config["contexts"] = [{"name": name, "context": {"cluster": context["cluster"], "user": name}}]
    config["users"] = [{"name": name, "user": {"token": token}}]
    config["current-context"] = name
    file = folder / f"kubeconfig-{name}"
    file.write_text(yaml.safe_dump(config))
    return file
