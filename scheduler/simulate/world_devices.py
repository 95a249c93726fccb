"""Devices in a simulated cluster: what writes of claims do, the controller that frees them, and what must hold."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final

import msgspec

from scheduler.errors import InvariantViolation
from scheduler.messages.claim_commands import (
    ClaimCommand,
    CreateClaim,
    DeallocateClaim,
    DeleteClaim,
    ReserveClaim,
    UnreserveClaim,
)
from scheduler.messages.references import ClaimReference, PodReference
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.kinds import Kind, decode
from scheduler.objects.quantity import parse
from scheduler.simulate.world_facts import Document, Facts, Refused, copied, is_over
from scheduler.simulate.world_trouble import outcome_of

EXTENDED = "resource.kubernetes.io/extended-resource-claim"

CLASS_SIZES: Final = {"gpus": 0, "wholes": 2, "halves": 1}
"""Device classes of random workloads, by the attribute that their devices have."""


class ClaimWrites:
    """The writes of claims, and what the writer answers."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._written: dict[int, str] = {}
        """Ticket → key of the claim that was written."""

    def carry_out(self, command: ClaimCommand, time: str) -> None:
        """Raises Refused."""
        self._written[command.ticket] = carry_out(self._facts, command, time)

    def outcome_of(self, command: ClaimCommand, refused: Refused | None) -> WriteFinished:
        """The outcome of the write, with the claim as it is by then; after a failure the writer looks it up."""
        found = self._facts.get(Kind.RESOURCE_CLAIM, self._written.pop(command.ticket, ""))
        written = decode(Kind.RESOURCE_CLAIM, msgspec.json.encode(found)) if found is not None else None
        return msgspec.structs.replace(outcome_of(command.ticket, refused), written=written)


def carry_out(facts: Facts, command: ClaimCommand, time: str) -> str:
    """What the API server does in the end; the key of the claim concerned, "" if it is gone. Raises Refused."""
    match command:
        case ReserveClaim():
            _reserve(facts, command, time)
        case CreateClaim():
            return _create(facts, command, time)
        case UnreserveClaim():
            _claim(facts, command.claim)
            facts.change(Kind.RESOURCE_CLAIM, command.claim.key, lambda claim: _drop(claim, command.consumer.uid))
        case DeallocateClaim():
            found = _claim(facts, command.claim)
            if found["metadata"]["resourceVersion"] != command.resource_version:
                raise Refused(409, "Conflict", f'resourceclaims "{command.claim.key}" has been modified')
            facts.change(Kind.RESOURCE_CLAIM, command.claim.key, lambda claim: claim.pop("status", None))
        case DeleteClaim():
            _claim(facts, command.claim)
            facts.remove(Kind.RESOURCE_CLAIM, command.claim.key)
            return ""
    return command.claim.key


def _claim(facts: Facts, reference: ClaimReference) -> Document:
    found = facts.get(Kind.RESOURCE_CLAIM, reference.key)
    if found is None or found["metadata"]["uid"] != reference.uid:
        raise Refused(404, "NotFound", f"claim {reference.key} got deleted in the meantime")
    return found


def _reserve(facts: Facts, command: ReserveClaim, time: str) -> None:
    allocation = _claim(facts, command.claim).get("status", {}).get("allocation")
    if command.allocation is not None:
        decided = msgspec.to_builtins(command.allocation)
        if allocation is not None and {**allocation, **decided} != allocation:
            raise Refused(409, "Conflict", f"claim {command.claim.key} got allocated elsewhere in the meantime")
        allocation = allocation or decided
    if allocation is None:
        raise Refused(409, "Conflict", f"claim {command.claim.key} got deallocated elsewhere in the meantime")
    if "allocationTimestamp" not in allocation:
        allocation = {"allocationTimestamp": time, **allocation}

    def edit(claim: Document) -> None:
        _drop(claim, command.consumer.uid)
        claim.setdefault("status", {})["allocation"] = copied(allocation)
        claim["status"].setdefault("reservedFor", []).append(msgspec.to_builtins(command.consumer))

    facts.change(Kind.RESOURCE_CLAIM, command.claim.key, edit)


def _create(facts: Facts, command: CreateClaim, time: str) -> str:
    pod = facts.pod(command.pod.key, command.pod.uid)
    if command.nominated_node:
        facts.patch_status(command.pod.key, command.pod.uid, None, command.nominated_node)
    document = {
        "metadata": {
            "name": f"{command.pod.name}-extended-resources-{pod['metadata']['resourceVersion']}",
            "namespace": command.pod.namespace,
            "annotations": {EXTENDED: "true"},
            "ownerReferences": [{"kind": "Pod", "name": command.pod.name, "uid": command.pod.uid, "controller": True}],
        },
        "spec": {"devices": {"requests": msgspec.to_builtins(command.requests)}},
        "status": {
            "allocation": msgspec.to_builtins(command.allocation),
            "reservedFor": [_consumer(command.pod)],
        },
    }
    return facts.create(Kind.RESOURCE_CLAIM, document, time)


def _consumer(pod: PodReference) -> dict[str, str]:
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


def _drop(claim: Document, uid: str) -> None:
    status = claim.setdefault("status", {})
    status["reservedFor"] = [one for one in status.get("reservedFor", []) if one["uid"] != uid]


# --- the controller ---------------------------------------------------------------------------------------------------


def claim_spec(template: str) -> Document:
    """What a template asks for. Templates are no objects here: the name of one says it, as in ``gpus-2``."""
    device_class, _, count = template.rpartition("-")
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": int(count)}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def make_claims(facts: Facts, time: str) -> None:
    """Make a claim for each entry of the pods that names a template, and name it in their status."""
    for key, pod in facts.of(Kind.POD):
        known = {one["name"] for one in pod["status"].get("resourceClaimStatuses", ())}
        for entry in pod["spec"].get("resourceClaims", ()) if not is_over(pod) else ():
            template = entry.get("resourceClaimTemplateName", "")
            if template and entry["name"] not in known:
                name = f"{pod['metadata']['name']}-{entry['name']}-{pod['metadata']['uid']}"
                owner = {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
                metadata = {
                    "name": name,
                    "namespace": pod["metadata"]["namespace"],
                    "ownerReferences": [{"apiVersion": "v1", **owner, "controller": True}],
                }
                facts.create(Kind.RESOURCE_CLAIM, {"metadata": metadata, "spec": claim_spec(template)}, time)
                made = {"name": entry["name"], "resourceClaimName": name}
                facts.change(Kind.POD, key, partial(_note_claim, made))


def _note_claim(made: dict[str, str], pod: Document) -> None:
    pod["status"].setdefault("resourceClaimStatuses", []).append(made)


def free_claims(facts: Facts) -> None:
    """Pods that are gone or over hold nothing: claims that were made for one go, others give their devices back."""
    alive = {pod["metadata"]["uid"] for _, pod in facts.of(Kind.POD) if not is_over(pod)}
    for key, claim in facts.of(Kind.RESOURCE_CLAIM):
        owners = claim["metadata"].get("ownerReferences", [])
        if owners and owners[0]["uid"] not in alive:
            facts.remove(Kind.RESOURCE_CLAIM, key)
            continue
        consumers = claim.get("status", {}).get("reservedFor", [])
        staying = [one for one in consumers if one["uid"] in alive]
        if consumers and not staying:
            facts.change(Kind.RESOURCE_CLAIM, key, lambda found: found.pop("status", None))
        elif staying != consumers:
            facts.change(Kind.RESOURCE_CLAIM, key, partial(_set_consumers, staying))


def _set_consumers(consumers: list[dict[str, str]], claim: Document) -> None:
    claim["status"]["reservedFor"] = consumers


# --- what must hold ---------------------------------------------------------------------------------------------------


def check_devices(facts: Facts) -> None:
    """Check that no device is held by two claims, no counter is overdrawn, and bound pods have what their claims ask
    for."""
    taken: Counter[tuple[str, str, str]] = Counter()
    holders: dict[tuple[str, str, str], list[str]] = {}
    for key, claim in facts.of(Kind.RESOURCE_CLAIM):
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
            device = (result["driver"], result["pool"], result["device"])
            if not result.get("adminAccess") and "shareID" not in result:
                taken[device] += 1
                holders.setdefault(device, []).append(key)
    for device, count in taken.items():
        if count > 1:
            raise InvariantViolation(f"device {'/'.join(device)} is held by {' and '.join(holders[device])}")
    _check_counters(facts, taken)
    for key, pod in facts.of(Kind.POD):
        if not pod["spec"].get("nodeName") or is_over(pod):
            continue
        made = {one["name"]: one["resourceClaimName"] for one in pod["status"].get("resourceClaimStatuses", ())}
        for entry in pod["spec"].get("resourceClaims", ()):
            claim_key = f"{pod['metadata']['namespace']}/{entry.get('resourceClaimName') or made[entry['name']]}"
            found = facts.get(Kind.RESOURCE_CLAIM, claim_key)
            reserved = found.get("status", {}).get("reservedFor", []) if found is not None else []
            if found is not None and not any(one["uid"] == pod["metadata"]["uid"] for one in reserved):
                raise InvariantViolation(f"pod {key} is bound, but claim {claim_key} is not reserved for it")


def _check_counters(facts: Facts, taken: Counter[tuple[str, str, str]]) -> None:
    offered: dict[tuple[str, str, str, str], int] = {}
    used: Counter[tuple[str, str, str, str]] = Counter()
    for _, document in facts.of(Kind.RESOURCE_SLICE):
        spec: dict[str, Any] = document["spec"]
        pool = (spec["driver"], spec["pool"]["name"])
        for one in spec.get("sharedCounters", ()):
            for counter, amount in one["counters"].items():
                offered[*pool, one["name"], counter] = parse(amount["value"])
        for device in spec.get("devices", ()):
            for consumed in device.get("consumesCounters", ()) if taken[*pool, device["name"]] else ():
                for counter, amount in consumed["counters"].items():
                    used[*pool, consumed["counterSet"], counter] += parse(amount["value"])
    for key, amount in used.items():
        if key in offered and amount > offered[key]:
            raise InvariantViolation(f"counter {'/'.join(key)} is overdrawn")
