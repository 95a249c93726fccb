"""Which events may make a pod schedulable that DynamicResources rejected (docs/kube-scheduler/dra.md §3)."""

from __future__ import annotations

import msgspec

from scheduler.cluster.devices.special_claims import pod_of_special_claim
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.plugins.devices.claims import is_of_group


def _claim_changed(pod: PodInfo, old: ResourceClaim | None, new: ResourceClaim | None) -> Hint:
    """Freed devices may help every pod; else a pod's own claims matter alone.

    kube-scheduler 1.36 passes over pods of whose claims one is missing or going, even if devices come free. Such a pod
    is held back by PreEnqueue here, and is not tried either. A claim that was made again within one event is new.

    A claim that was left over for the pod's extended resources keeps it from every node until it is deleted.
    """
    if new is None:
        is_left_over = old is not None and pod_of_special_claim(old) == pod.uid
        return Hint.QUEUE if is_left_over else Hint.SKIP
    if old is not None and old.allocation is not None and new.allocation is None:
        return Hint.QUEUE
    if not _is_own(pod, new):
        return Hint.SKIP
    if old is not None and old.uid == new.uid and msgspec.json.encode(old.status) == msgspec.json.encode(new.status):
        return Hint.SKIP
    return Hint.QUEUE


def _is_own(pod: PodInfo, claim: ResourceClaim) -> bool:
    if claim.namespace != pod.namespace or claim.is_terminating:
        return False
    entries = pod.pod.spec.resource_claims
    if any(entry.resource_claim_name == claim.name for entry in entries):
        return True
    from_template = {entry.name for entry in entries if entry.resource_claim_template_name is not None}
    if claim.is_controlled_by(pod.uid):
        made = pod.pod.status.resource_claim_statuses
        return any(status.resource_claim_name == claim.name and status.name in from_template for status in made)
    # Members of a group share an answer, so whether the status of one of them names the claim may not matter here.
    return bool(from_template) and is_of_group(pod, claim)


def _claims_were_generated(pod: PodInfo, _old: PodInfo | None, new: PodInfo | None) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == pod.uid else Hint.SKIP


EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE)
    ),
    EventRegistration(
        ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD | Action.UPDATE | Action.DELETE), _claim_changed
    ),
    EventRegistration(ClusterEvent(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM), _claims_were_generated),
    EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)),
    EventRegistration(ClusterEvent(Resource.RESOURCE_SLICE, Action.ADD | Action.UPDATE)),
)
