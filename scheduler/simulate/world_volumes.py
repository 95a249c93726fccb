"""Volumes in a simulated cluster: the controller that binds and provisions them, and what must hold of them."""

from __future__ import annotations

from typing import Any, Final

from scheduler.errors import InvariantViolation
from scheduler.objects.kinds import Kind
from scheduler.simulate.world_facts import Document, Facts, is_over

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
HOST: Final = "kubernetes.io/hostname"


def bind_volumes(facts: Facts, time: str) -> None:
    """Let the volume controller look at every claim and volume once: it provisions for claims with a selected node,
    binds claims to the volumes that were reserved for them, and deletes volumes whose claim is gone."""
    for key, claim in facts.of(Kind.PERSISTENT_VOLUME_CLAIM):
        if not _is_bound(claim):
            _provision(facts, key, claim, time)
    for name, volume in facts.of(Kind.PERSISTENT_VOLUME):
        reference = volume["spec"].get("claimRef")
        if reference is None:
            continue
        key = f"{reference['namespace']}/{reference['name']}"
        found = facts.get(Kind.PERSISTENT_VOLUME_CLAIM, key)
        if found is None or reference.get("uid") not in (None, "", found["metadata"]["uid"]):
            facts.remove(Kind.PERSISTENT_VOLUME, name)
        elif not _is_bound(found):
            facts.change(Kind.PERSISTENT_VOLUME, name, lambda one: one["status"].update(phase="Bound"))
            facts.change(Kind.PERSISTENT_VOLUME_CLAIM, key, lambda one, name=name: _complete(one, name))  # type: ignore[misc]  # mypy can't infer a lambda with a default


def check_volumes(facts: Facts) -> None:
    """Check that no volume has two claims, and that pods that have a node can reach all of their volumes there. Raises
    InvariantViolation."""
    owners: dict[str, str] = {}
    for key, claim in facts.of(Kind.PERSISTENT_VOLUME_CLAIM):
        if _is_bound(claim):
            other = owners.setdefault(claim["spec"]["volumeName"], key)
            if other != key:
                raise InvariantViolation(f"volume {claim['spec']['volumeName']} has two claims, {other} and {key}")
    for key, pod in facts.of(Kind.POD):
        if pod["spec"].get("nodeName") and not is_over(pod):
            _check_pod(facts, key, pod)


def _check_pod(facts: Facts, key: str, pod: Document) -> None:
    node = pod["spec"]["nodeName"]
    for entry in pod["spec"].get("volumes") or ():
        claim = facts.get(Kind.PERSISTENT_VOLUME_CLAIM, f"default/{entry['persistentVolumeClaim']['claimName']}")
        if claim is None:
            continue
        if not _is_bound(claim):
            raise InvariantViolation(f"pod {key} is bound to {node} before its claim {claim['metadata']['name']} is")
        volume = facts.get(Kind.PERSISTENT_VOLUME, claim["spec"]["volumeName"])
        if volume is not None and node not in _hosts(volume):
            raise InvariantViolation(f"pod {key} is on {node}, its volume {volume['metadata']['name']} is elsewhere")


def _provision(facts: Facts, key: str, claim: Document, time: str) -> None:
    node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
    storage_class = facts.get(Kind.STORAGE_CLASS, claim["spec"].get("storageClassName") or "")
    if node is None or storage_class is None or storage_class["provisioner"] == NO_PROVISIONER:
        return
    name = f"pvc-{claim['metadata']['uid']}"
    if facts.get(Kind.PERSISTENT_VOLUME, name) is None:
        facts.create(Kind.PERSISTENT_VOLUME, _volume_for(name, node, key, claim), time)


def _volume_for(name: str, node: str, key: str, claim: Document) -> Document:
    namespace, _, claim_name = key.partition("/")
    document = volume_document(
        name, node, claim["spec"]["storageClassName"], claim["spec"]["resources"]["requests"]["storage"]
    )
    document["spec"]["claimRef"] = {"namespace": namespace, "name": claim_name, "uid": claim["metadata"]["uid"]}
    return document


def volume_document(name: str, host: str, storage_class: str, size: str) -> Document:
    """A volume that one host reaches."""
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [host]}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "volumeMode": "Filesystem",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    }


def _complete(claim: Document, volume: str) -> None:
    claim["spec"]["volumeName"] = volume
    claim["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"
    claim["status"]["phase"] = "Bound"


def _is_bound(claim: Document) -> bool:
    return BIND_COMPLETED in claim["metadata"].get("annotations", {})


def _hosts(volume: Document) -> list[str]:
    terms: list[Any] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return [host for term in terms for expression in term["matchExpressions"] for host in expression["values"]]
