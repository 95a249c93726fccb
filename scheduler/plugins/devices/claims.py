"""Which ResourceClaims a pod uses (docs/kube-scheduler/dra.md §3)."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.pod import PodResourceClaim
from scheduler.objects.resource_claims import ResourceClaim

ClaimLookup = Callable[[str], ResourceClaim | None]
"""By ``namespace/name``."""


def claims_of(pod: PodInfo, find: ClaimLookup) -> tuple[ResourceClaim, ...] | str:
    """In the pod's order, each once; or why the pod can't be tried, the first reason."""
    found: dict[str, ResourceClaim] = {}
    for entry in pod.pod.spec.resource_claims:
        name = _name_of(pod, entry)
        if name is None:
            return f'pod "{pod.key}": ResourceClaim not created yet'
        if name == "" and entry.resource_claim_name is None and entry.resource_claim_template_name is None:
            return f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
        if name == "":
            continue
        claim = find(f"{pod.namespace}/{name}")
        if claim is None:
            return f'could not find ResourceClaim "{pod.namespace}/{name}"'
        if claim.is_terminating:
            return f'resourceclaim "{name}" is being deleted'
        if entry.resource_claim_name is None and not claim.is_controlled_by(pod.uid):
            return f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
        found[claim.uid or claim.key] = claim
    return tuple(found.values())


def _name_of(pod: PodInfo, entry: PodResourceClaim) -> str | None:
    """None: not made yet; "": none is needed, or the entry is empty."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        return ""
    for status in pod.pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name or ""
    return None
