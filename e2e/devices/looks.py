"""What a scheduler made of a scene with devices, as sentences: equal decisions are equal sets of them."""

from __future__ import annotations

import json
from typing import Any

from e2e.builders import Object
from e2e.client import State
from e2e.room import Room, refusal

EXTENDED = "resource.kubernetes.io/extended-resource-claim"


def look_at(room: Room, claims: State) -> frozenset[str]:
    """What became of each pod and each claim of the room."""
    pods = room.pods.state.values()
    names = {one["metadata"]["name"]: _name_of(one) for one in claims.values()}
    return frozenset([*(_fate(pod, names) for pod in pods), *(_state(one) for one in claims.values())])


def _fate(pod: Object, names: dict[str, str]) -> str:
    name = pod["metadata"]["name"]
    status = pod.get("status", {})
    extended = status.get("extendedResourceClaimStatus")
    served = ""
    if extended is not None:
        made = names.get(extended["resourceClaimName"], "a claim that is gone")
        served = f", served by {made}: {json.dumps(extended['requestMappings'], sort_keys=True)}"
    if pod["spec"].get("nodeName"):
        return f"pod {name} on {pod['spec']['nodeName']}{served}"
    said = refusal(pod)
    return f"pod {name} waits: {'without a word' if said is None else said['reason'] + ': ' + said['message']}{served}"


def _name_of(claim: Object) -> str:
    """Names that the server makes are those of the pod that the claim belongs to."""
    metadata = claim["metadata"]
    if "generateName" not in metadata:
        return str(metadata["name"])
    owner = next(iter(metadata.get("ownerReferences", ())), {"name": "no pod"})
    kind = "extended resources" if metadata.get("annotations", {}).get(EXTENDED) == "true" else "template"
    return f"the {kind} claim of {owner['name']}"


def _state(claim: Object) -> str:
    status = claim.get("status", {})
    allocation: dict[str, Any] | None = status.get("allocation")
    users = ", ".join(sorted(f"{one['resource']}/{one['name']}" for one in status.get("reservedFor", ())))
    finalizers = ",".join(claim["metadata"].get("finalizers", ()))
    going = ", going" if "deletionTimestamp" in claim["metadata"] else ""
    asked = json.dumps(claim["spec"]["devices"].get("requests", []), sort_keys=True)
    said = f"claim {_name_of(claim)} [{finalizers}]{going} for [{users}] asks {asked}"
    return f"{said} has {_written(allocation)}" if allocation is not None else said


def _written(allocation: dict[str, Any]) -> str:
    """All of it but its time and what is drawn by chance."""
    results = [
        {key: value if key != "shareID" else "drawn" for key, value in one.items()}
        for one in allocation["devices"].get("results", ())
    ]
    rest = {key: value for key, value in allocation.items() if key not in ("allocationTimestamp", "devices")}
    config = allocation["devices"].get("config", [])
    is_dated = "allocationTimestamp" in allocation
    return json.dumps({"results": results, "config": config, "dated": is_dated, **rest}, sort_keys=True)
