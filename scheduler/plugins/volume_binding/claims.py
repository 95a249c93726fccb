"""The claims of a pod, sorted by what is to be done about them (docs/kube-scheduler/volumes.md §2.1)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.cluster.volumes.csi import ForeignClaim, claim_key, is_made_for
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable
from scheduler.objects.pod import Volume
from scheduler.objects.storage import NO_PROVISIONER, PersistentVolumeClaim, StorageClass

UNBOUND = unresolvable("pod has unbound immediate PersistentVolumeClaims")


class PodClaims(Struct, frozen=True):
    """The claims of a pod by what is to be done about them, in the order of the pod's volumes."""

    bound: tuple[PersistentVolumeClaim, ...]
    """Claims that have their volume, each of them once."""
    delayed: tuple[PersistentVolumeClaim, ...]
    """Claims that get a volume once a node is chosen, once for each of the pod's volumes that names the claim: as in
    kube-scheduler 1.36 each of these needs one to itself."""


def sort_claims(pod: PodInfo, view: View) -> PodClaims | Skip | Refusal:
    """SKIP for a pod without claims; a Refusal where a claim is unusable, or unbound and not delayed."""
    claims: list[PersistentVolumeClaim] = []
    for volume in pod.pod.spec.volumes:
        key = claim_key(pod, volume)
        if key is None:
            continue
        found = _usable(pod, volume, key, view)
        if isinstance(found, Refusal):
            return found
        claims.append(found)
    if not claims:
        return SKIP
    bound: dict[str, PersistentVolumeClaim] = {}
    delayed: list[PersistentVolumeClaim] = []
    is_any_immediate = False
    for claim in claims:
        if claim.is_fully_bound:
            bound[claim.key] = claim
            continue
        waits = _waits_for_a_node(claim, view)
        if isinstance(waits, Refusal):
            return waits
        if waits and not claim.spec.volume_name:
            delayed.append(claim)
        else:
            is_any_immediate = True
    return UNBOUND if is_any_immediate else PodClaims(tuple(bound.values()), tuple(delayed))


def why_unbound(pod: PodInfo, view: View) -> Iterator[str]:
    """The claims that are to be bound before the pod is placed, and what each of them lacks, in words."""
    for volume in pod.pod.spec.volumes:
        key = claim_key(pod, volume)
        claim = _usable(pod, volume, key, view) if key is not None else None
        if not isinstance(claim, PersistentVolumeClaim) or claim.is_fully_bound:
            continue
        name, chosen = claim.storage_class, claim.spec.volume_name
        found = view.find(StorageClass, name) if name else None
        if chosen:
            yield f"claim {claim.key} is not bound to volume {chosen} yet, which it names"
        elif not name:
            yield f"claim {claim.key} names no StorageClass, and waits for a volume without a class to be bound to it"
        elif found is None:
            yield f"claim {claim.key} names StorageClass {name}, which is not there"
        elif not found.waits_for_first_consumer and found.provisioner == NO_PROVISIONER:
            yield f"claim {claim.key} waits for a volume of class {name}, which makes none, to be bound to it"
        elif not found.waits_for_first_consumer:
            yield f"claim {claim.key} has no volume yet: {found.provisioner} of class {name} is to make it"


def _usable(pod: PodInfo, volume: Volume, key: str, view: View) -> PersistentVolumeClaim | Refusal:
    claim = view.volumes.claim(key)
    name = key.rpartition("/")[2]
    if claim is None:
        if volume.ephemeral is not None:
            return unresolvable(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
        return unresolvable(f'persistentvolumeclaim "{name}" not found')
    if claim.status.phase == "Lost":
        return unresolvable(
            f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
        )
    if claim.is_terminating:
        return unresolvable(f'persistentvolumeclaim "{name}" is being deleted')
    if volume.ephemeral is not None and not is_made_for(claim, pod):
        return unresolvable(str(ForeignClaim(key, pod.key)))
    return claim


def _waits_for_a_node(claim: PersistentVolumeClaim, view: View) -> bool | Refusal:
    class_name = claim.storage_class
    if not class_name:
        return False
    found = view.find(StorageClass, class_name)
    if found is None:
        return False
    if found.volume_binding_mode is None:
        return failure(f'VolumeBindingMode not set for StorageClass "{class_name}"')
    return found.waits_for_first_consumer
