"""Which changes of claims wake which pods."""

from __future__ import annotations

from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Action, Hint, Resource
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION
from scheduler.plugins.devices.dynamic_resources import DynamicResources
from tests.device_documents import claim
from tests.plugins.devices.test_dynamic_resources import claiming, parsed


def hint(pod: PodInfo, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Hint:
    (registration,) = [one for one in DynamicResources().events() if one.event.resource is Resource.RESOURCE_CLAIM]
    return registration.hint(pod, *[None if one is None else parsed(one) for one in (old, new)])


def test_freed_devices_wake_every_pod_that_waits_for_devices() -> None:
    held = claim("held", "gpus")
    held["status"] = {"allocation": {"devices": {"results": []}}}
    assert hint(claiming("mine"), held, claim("held", "gpus")) is Hint.QUEUE
    assert hint(claiming("mine"), None, claim("other", "gpus")) is Hint.SKIP
    assert hint(claiming("mine"), None, claim("mine", "gpus")) is Hint.QUEUE
    assert hint(claiming("mine"), claim("mine", "gpus"), claim("mine", "gpus")) is Hint.SKIP


def test_the_deletion_of_a_claim_left_over_for_a_pod_helps_this_pod_alone() -> None:
    pod, other = claiming("mine"), claiming("others", name="other")
    left = claim("left", "gpus")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    left["metadata"] |= {"annotations": {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}, "ownerReferences": [owner]}
    (registration,) = [one for one in DynamicResources().events() if one.event.resource is Resource.RESOURCE_CLAIM]
    assert Action.DELETE in registration.event.action
    assert hint(pod, left, None) is Hint.QUEUE
    assert hint(other, left, None) is Hint.SKIP
    assert hint(pod, claim("mine", "gpus"), None) is Hint.SKIP, "as in kube-scheduler"
