"""The controller of ResourceClaims: makes them from templates, and frees the devices of pods that are over."""

from __future__ import annotations

from typing import Any, Final

from scheduler.simulate.apiserver import Registry
from scheduler.simulate.apiserver.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from scheduler.simulate.controllers.index import Dependents, controller_of, owner_reference

Object = dict[str, Any]

MADE_FOR: Final = "resource.kubernetes.io/pod-claim-name"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
OVER: Final = ("Succeeded", "Failed")


def pod(registry: Registry, _: Dependents, obj: Object) -> None:
    """Makes a claim for each entry of the pod that names a template, and names it in the pod's status."""
    if "deletionTimestamp" in obj["metadata"] or obj["status"].get("phase") in OVER:
        return
    made = {one["name"] for one in obj["status"].get("resourceClaimStatuses") or ()}
    for entry in obj["spec"].get("resourceClaims") or ():
        template = entry.get("resourceClaimTemplateName")
        if template is not None and entry["name"] not in made:
            _make(registry, obj, entry["name"], template)


def claim(registry: Registry, _: Dependents, obj: Object) -> None:
    """Keeps the claim reserved for pods that are there and not over. With none left it gives its devices back, if it
    was made for a pod or is being deleted; without devices it may go."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    consumers = [one for one in status.get("reservedFor") or () if _is_alive(registry, metadata["namespace"], one)]
    is_over = "deletionTimestamp" in metadata or _was_made_for_a_pod(obj)
    is_freed = not consumers and is_over and bool(status.get("reservedFor") or "deletionTimestamp" in metadata)
    finalizers = metadata.get("finalizers") or []
    if consumers == (status.get("reservedFor") or []) and not (is_freed and ("allocation" in status or finalizers)):
        return

    def edited(old: Object) -> Object:
        changed = {key: value for key, value in (old.get("status") or {}).items() if key != "reservedFor"}
        if consumers:
            changed["reservedFor"] = consumers
        kept = old["metadata"]
        if is_freed:
            changed.pop("allocation", None)
            changed.pop("devices", None)
            kept = {key: value for key, value in kept.items() if key != "finalizers"}
            rest = [one for one in finalizers if one != FINALIZER]
            if rest:
                kept["finalizers"] = rest
        return {**old, "metadata": kept, "status": changed}

    registry.change(RESOURCE_CLAIMS, metadata["namespace"], metadata["name"], edited)


def claims_of(obj: Object) -> list[str]:
    """The names of the claims that a pod uses, as far as they are known."""
    made = [one.get("resourceClaimName") for one in obj["status"].get("resourceClaimStatuses") or ()]
    named = [entry.get("resourceClaimName") for entry in obj["spec"].get("resourceClaims") or ()]
    extended = (obj["status"].get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return [name for name in (*made, *named, extended) if name]


def _make(registry: Registry, pod: Object, entry: str, template: str) -> None:
    namespace = pod["metadata"]["namespace"]
    found = registry.store.get(RESOURCE_CLAIM_TEMPLATES, namespace, template)
    if found is None:
        return
    meant = found["spec"].get("metadata") or {}
    body = {
        "metadata": {
            "generateName": f"{pod['metadata']['name']}-{entry}-",
            "labels": dict(meant.get("labels") or {}),
            "annotations": {**(meant.get("annotations") or {}), MADE_FOR: entry},
            "ownerReferences": [owner_reference(PODS, pod)],
        },
        "spec": found["spec"]["spec"],
    }
    created = registry.create(RESOURCE_CLAIMS, namespace, body)
    status = {"name": entry, "resourceClaimName": created.name}

    def edited(old: Object) -> Object:
        known = old["status"].get("resourceClaimStatuses") or []
        return {**old, "status": {**old["status"], "resourceClaimStatuses": [*known, status]}}

    registry.change(PODS, namespace, pod["metadata"]["name"], edited)


def _is_alive(registry: Registry, namespace: str, consumer: Object) -> bool:
    if consumer.get("resource") != "pods":
        return True
    found = registry.store.get(PODS, namespace, consumer["name"])
    return (
        found is not None and found["metadata"]["uid"] == consumer["uid"] and found["status"].get("phase") not in OVER
    )


def _was_made_for_a_pod(obj: Object) -> bool:
    owner = controller_of(obj)
    return owner is not None and owner["kind"] == "Pod"
