"""Pods with ResourceClaims in the queue: which events let them be tried again (docs/kube-scheduler/dra.md §3)."""

from __future__ import annotations

from typing import Any

from scheduler.engine.commands import RecordAttempt
from scheduler.framework.plugin import Wait
from scheduler.messages.claim_commands import DeallocateClaim
from scheduler.messages.status import unschedulable
from scheduler.messages.stimuli import ObjectDeleted, WriteFinished
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.testing.objects import build
from tests import device_documents
from tests.engine.driver import Cluster
from tests.engine.scripted import scripted

HELD = {"devices": {"results": [{"request": "r", "driver": device_documents.DRIVER, "pool": "n", "device": "gpu-0"}]}}


def show_claim(cluster: Cluster, name: str, status: dict[str, Any] | None = None, **metadata: str) -> None:
    document = device_documents.claim(name, "gpus")
    document["metadata"].update(metadata)
    cluster.show(build(ResourceClaim, {**document, "status": status or {}}))


def test_a_device_stays_with_its_claim_when_the_watch_is_late_with_a_claim_that_had_it_before_and_is_gone() -> None:
    """The answer to a write has shown whose it is now, ahead of the watch."""
    cluster = Cluster()
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", device_documents.gpu("gpu-0"))))
    show_claim(cluster, "present", {"allocation": HELD}, uid="present", resourceVersion="20")
    show_claim(cluster, "former", {"allocation": HELD}, uid="former", resourceVersion="10")
    former = cluster.engine.cache.objects.get(Kind.RESOURCE_CLAIM, "default/former")
    assert former is not None
    cluster.feed(ObjectDeleted(Kind.RESOURCE_CLAIM, former))
    show_claim(cluster, "mine")
    cluster.pod("a", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]})
    cluster.schedule()
    assert cluster.place("a") == "unschedulable"
    show_claim(cluster, "present", uid="present", resourceVersion="21")
    attempt = cluster.schedule()
    assert attempt is not None and attempt.node == "n"


def test_a_pod_whose_resource_no_node_offers_is_placed_once_a_device_class_stands_for_it() -> None:
    cluster = Cluster()
    cluster.node("n")
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", device_documents.gpu("gpu-0"))))
    cluster.pod("a", requests={"example.com/gpu": "1"})
    cluster.schedule()
    assert cluster.place("a") == "unschedulable"
    gpus = device_documents.device_class("gpus", "true", extendedResourceName="example.com/gpu")
    cluster.show(build(DeviceClass, gpus))
    cluster.advance(2)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.node == "n"


def waiting_for_a_device() -> Cluster:
    """Pod a has the claim ``mine``; the only device is held by the claim ``other``."""
    cluster = Cluster()
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", device_documents.gpu("gpu-0"))))
    show_claim(cluster, "other", {"allocation": HELD})
    show_claim(cluster, "mine")
    cluster.pod("a", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]})
    cluster.schedule()
    assert cluster.place("a") == "unschedulable"
    return cluster


def holding_in_permit() -> Cluster:
    """The only device is set aside for pod a, which waits in Permit; pod b waits for it."""
    cluster = Cluster(scripted("Waits", permit=lambda pod, node: Wait(600) if pod == "a" else None))
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", device_documents.gpu("gpu-0"))))
    show_claim(cluster, "a")
    show_claim(cluster, "b")
    for name in ("a", "b"):
        cluster.pod(name, spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]})
        cluster.schedule()
    cluster.advance(20)
    assert (cluster.node_of("a"), cluster.place("b")) == ("n", "unschedulable")
    return cluster


def attempts(cluster: Cluster) -> int:
    return sum(isinstance(one, RecordAttempt) for one in cluster.sent)


def test_devices_that_come_free_let_a_pod_be_tried_that_waits_for_devices() -> None:
    cluster = waiting_for_a_device()
    show_claim(cluster, "other")
    assert cluster.place("a") in ("active", "backoff")


def test_a_claim_that_is_not_the_pods_own_wakes_it_by_giving_devices_back_alone() -> None:
    cluster = waiting_for_a_device()
    show_claim(cluster, "other", {"allocation": HELD, "reservedFor": [{"resource": "pods", "name": "b", "uid": "b"}]})
    show_claim(cluster, "third")
    assert cluster.place("a") == "unschedulable"


def test_a_pod_whose_claim_is_going_is_not_tried_when_devices_come_free() -> None:
    """kube-scheduler leaves it where it is; here it is moved, and held back before an attempt."""
    cluster = waiting_for_a_device()
    known = attempts(cluster)
    show_claim(cluster, "mine", deletionTimestamp="2026-01-01T00:00:00Z")
    show_claim(cluster, "other")
    cluster.advance(20)
    cluster.settle()
    assert attempts(cluster) == known


def test_a_claim_that_was_made_again_releases_its_pod_even_if_its_deletion_was_not_seen() -> None:
    cluster = waiting_for_a_device()
    show_claim(cluster, "mine", deletionTimestamp="2026-01-01T00:00:00Z")
    show_claim(cluster, "other")
    assert cluster.place("a") == "gated"
    show_claim(cluster, "mine", uid="made again")
    assert cluster.place("a") in ("active", "backoff")


def test_devices_of_a_pod_that_permit_rejects_let_others_be_tried_and_not_the_pod_itself() -> None:
    cluster = holding_in_permit()
    cluster.reject("a", "Waits")
    assert cluster.place("a") == "unschedulable"
    cluster.schedule_all()
    assert cluster.node_of("b") == "n"


def test_devices_of_a_pod_that_is_deleted_in_permit_let_others_be_tried() -> None:
    cluster = holding_in_permit()
    cluster.delete("a")
    cluster.schedule_all()
    assert cluster.node_of("b") == "n"


def test_devices_that_a_pod_has_set_aside_and_given_up_within_its_attempt_wake_none_that_waits_for_devices() -> None:
    cluster = Cluster(scripted("Refuses", permit=lambda pod, node: unschedulable("no") if pod == "a" else None))
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", device_documents.gpu("gpu-0"))))
    show_claim(cluster, "a")
    two = [{"name": "r", "exactly": device_documents.exactly("gpus", count=2)}]
    cluster.show(build(ResourceClaim, device_documents.claim("b", requests=two)))
    for name in ("b", "a"):
        cluster.pod(name, spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]})
        cluster.schedule()
    show_claim(cluster, "another")
    assert cluster.place("b") == "unschedulable"


def giving_up() -> tuple[Cluster, DeallocateClaim]:
    """The claim of pod a has a device of a node where the pod does not fit any more, and is to give it up."""
    cluster = Cluster()
    cluster.node("n", cpu="1")
    here = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}]}
    show_claim(cluster, "mine", {"allocation": {**HELD, "nodeSelector": here}})
    cluster.pod("a", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]})
    cluster.schedule()
    assert cluster.place("a") == "unschedulable"
    return cluster, next(one for one in cluster.sent if isinstance(one, DeallocateClaim))


def test_devices_that_a_claim_is_getting_for_a_pod_stay_taken_when_another_pod_with_it_is_rejected() -> None:
    cluster = Cluster(scripted("Waits", permit=lambda pod, node: Wait(600)))
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", device_documents.gpu("gpu-0"))))
    show_claim(cluster, "shared", {"allocation": HELD})
    cluster.pod("a", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]})
    cluster.schedule()
    show_claim(cluster, "shared")
    cluster.pod("b", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]})
    cluster.schedule()
    assert (cluster.node_of("a"), cluster.node_of("b")) == ("n", "n")
    cluster.reject("a", "Waits")
    show_claim(cluster, "another")
    cluster.pod("c", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "another"}]})
    cluster.schedule()
    assert cluster.place("c") == "unschedulable"


def test_a_pod_whose_claim_could_not_be_made_to_give_its_devices_up_is_tried_again_after_its_back_off() -> None:
    cluster, write = giving_up()
    cluster.feed(WriteFinished(write.ticket, False, 500, "InternalError", "etcdserver: request timed out"))
    assert cluster.place("a") == "backoff"
    cluster.advance(3)
    cluster.schedule_all()
    assert len([one for one in cluster.sent if isinstance(one, DeallocateClaim)]) == 2


def test_a_pod_whose_claim_gives_its_devices_up_waits_for_the_watch_to_show_it() -> None:
    cluster, write = giving_up()
    cluster.feed(WriteFinished(write.ticket, True, 200))
    assert cluster.place("a") == "unschedulable"
    show_claim(cluster, "mine")
    assert cluster.place("a") == "backoff"
