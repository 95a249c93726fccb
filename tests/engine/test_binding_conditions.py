"""Devices with binding conditions: what a pod waits for on its node (docs/kube-scheduler/dra.md §5, §9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.framework.plugin import Wait
from scheduler.messages.claim_commands import CreateClaim, ReserveClaim
from scheduler.messages.commands import BindPod
from scheduler.messages.stimuli import ObjectDeleted, WriteFinished
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim
from scheduler.testing.objects import build
from tests import device_documents
from tests.engine.driver import Cluster
from tests.engine.scripted import scripted

CONDITIONS = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


def device(number: int) -> dict[str, Any]:
    return {"driver": device_documents.DRIVER, "pool": "n", "device": f"gpu-{number}"}


def said(number: int, condition: str) -> dict[str, Any]:
    """What the driver says of a device."""
    return {**device(number), "conditions": [{"type": condition, "status": "True", "reason": "Seen", "message": "m"}]}


class Attaching:
    """Node n with two devices, and pod a, whose claims have them already and are reserved for it."""

    def __init__(self, *claims: str) -> None:
        self.cluster = Cluster()
        self.cluster.node("n")
        self.cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
        gpus = [device_documents.gpu(f"gpu-{number}", **CONDITIONS) for number in range(2)]
        self.cluster.show(build(ResourceSlice, device_documents.resource_slice("n", *gpus)))
        self._entries = [{"name": name, "resourceClaimName": name} for name in claims]

    def show(self, name: str, *results: dict[str, Any], devices: tuple[dict[str, Any], ...] = ()) -> None:
        """The claim, with these devices and what the driver says of them."""
        status: dict[str, Any] = {}
        if results:
            given = {"devices": {"results": [{"request": "r", **one, **CONDITIONS} for one in results]}}
            reserved = [{"resource": "pods", "name": "a", "uid": self.cluster.uid("a")}]
            status = {"allocation": given, "reservedFor": reserved, "devices": list(devices)}
        self.cluster.show(build(ResourceClaim, {**device_documents.claim(name, "gpus"), "status": status}))

    def start(self) -> None:
        self.cluster.pod("a", spec={"resourceClaims": self._entries})
        self.cluster.schedule()

    @property
    def is_bound(self) -> bool:
        return bool(self.cluster.writes(BindPod, "a"))

    def why(self) -> str:
        return "".join(self.cluster.said("a"))


def test_of_the_devices_of_a_claim_the_first_that_is_not_ready_decides() -> None:
    attaching = Attaching("both")
    attaching.show("both", device(0), device(1), devices=(said(1, "broken"),))
    attaching.start()
    attaching.cluster.advance(10)
    assert (attaching.is_bound, attaching.why()) == (False, "")
    attaching.show("both", device(0), device(1), devices=(said(0, "attached"), said(1, "broken")))
    attaching.cluster.advance(2)
    assert 'device binding failed: claim=both, reason=Seen, message="m"' in attaching.why()


def test_of_the_claims_of_a_pod_the_first_that_is_not_ready_decides() -> None:
    attaching = Attaching("one", "other")
    attaching.show("one", device(0))
    attaching.show("other", device(1))
    attaching.start()
    attaching.show("other", device(1), devices=(said(1, "broken"),))
    attaching.cluster.advance(10)
    assert (attaching.is_bound, attaching.why()) == (False, "")
    attaching.show("one", device(0), devices=(said(0, "attached"),))
    attaching.cluster.advance(2)
    assert "device binding failed: claim=other" in attaching.why()


def test_a_pod_is_not_bound_while_one_of_its_claims_has_lost_its_devices() -> None:
    attaching = Attaching("one", "other")
    attaching.show("one", device(0))
    attaching.show("other", device(1), devices=(said(1, "attached"),))
    attaching.start()
    attaching.show("other")
    attaching.show("one", device(0), devices=(said(0, "attached"),))
    attaching.cluster.advance(10)
    assert (attaching.is_bound, attaching.why()) == (False, "")
    attaching.cluster.advance(600)
    assert "device binding timeout: context deadline exceeded" in attaching.why()


@pytest.mark.parametrize(
    ("driver_says", "seconds", "ending"), [("attached", 10, "success"), ("broken", 10, "failure"), ("", 600, "timeout")]
)
def test_the_attempt_says_how_long_it_waited_for_devices_and_how_that_ended(
    driver_says: str, seconds: float, ending: str
) -> None:
    attaching = Attaching("one")
    attaching.show("one", device(0))
    attaching.start()
    attaching.cluster.advance(seconds)
    if driver_says:
        attaching.show("one", device(0), devices=(said(0, driver_says),))
    attaching.cluster.advance(2)
    for bind in attaching.cluster.writes(BindPod):
        attaching.cluster.succeed(bind)
    (wait,) = attaching.cluster.attempt("a").device_waits
    assert (wait.drivers, wait.awaited, wait.ending) == ((device_documents.DRIVER,),) * 2 + (ending,)
    assert seconds <= wait.seconds <= seconds + 2


def test_a_claim_that_is_to_be_deleted_does_not_end_the_wait_for_its_devices() -> None:
    attaching = Attaching("one")
    attaching.show("one", device(0))
    attaching.start()
    going = device_documents.claim("one", "gpus")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    given = {"devices": {"results": [{"request": "r", **device(0), **CONDITIONS}]}}
    attaching.cluster.show(build(ResourceClaim, {**going, "status": {"allocation": given}}))
    attaching.cluster.advance(10)
    assert (attaching.is_bound, attaching.why()) == (False, "")


def test_a_claim_that_is_gone_ends_the_wait_once_the_claims_before_it_are_ready() -> None:
    attaching = Attaching("one", "other")
    attaching.show("one", device(0))
    attaching.show("other", device(1), devices=(said(1, "attached"),))
    attaching.start()
    gone = build(ResourceClaim, device_documents.claim("other", "gpus"))
    attaching.cluster.feed(ObjectDeleted(Kind.RESOURCE_CLAIM, gone))
    attaching.cluster.advance(10)
    assert (attaching.is_bound, attaching.why()) == (False, "")
    attaching.show("one", device(0), devices=(said(0, "attached"),))
    attaching.cluster.advance(2)
    assert 'could not find ResourceClaim "default/other"' in attaching.why()


def _with_other_devices() -> tuple[Cluster, dict[str, Any], dict[str, Any]]:
    """A pod that waits, since its claim has lost a device that was ready and has got one that is not; with the claim
    without devices, and the new allocation."""
    cluster = Cluster(scripted("Waits", permit=lambda pod, node: Wait(60)))
    cluster.node("n")
    document = device_documents.claim("c", "gpus")
    ready = {"devices": {"results": [{"request": "r", **device(0)}]}}
    cluster.show(build(ResourceClaim, {**document, "status": {"allocation": ready}}))
    cluster.pod("a", spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})
    cluster.schedule()
    unready = {"devices": {"results": [{"request": "r", **device(1), **CONDITIONS}]}}
    other = build(ResourceClaim, {**document, "status": {"allocation": unready}})
    cluster.show(other)
    cluster.allow("a", "Waits")
    write = next(one for one in cluster.sent if isinstance(one, ReserveClaim))
    cluster.feed(WriteFinished(write.ticket, True, 200, written=other))
    cluster.advance(10)
    assert (cluster.writes(BindPod, "a"), cluster.said("a")) == ([], [])
    return cluster, document, unready


def test_a_pod_waits_for_the_devices_that_its_claim_has_by_the_time_it_is_reserved() -> None:
    cluster, document, allocation = _with_other_devices()
    attached = {"allocation": allocation, "devices": [said(1, "attached")]}
    cluster.show(build(ResourceClaim, {**document, "status": attached}))
    cluster.advance(2)
    assert cluster.writes(BindPod, "a")


def test_a_pod_is_not_bound_if_its_claim_loses_the_devices_that_it_got_meanwhile() -> None:
    cluster, document, _ = _with_other_devices()
    cluster.show(build(ResourceClaim, document))
    cluster.advance(10)
    assert (cluster.writes(BindPod, "a"), cluster.said("a")) == ([], [])
    cluster.advance(600)
    assert not cluster.writes(BindPod, "a")
    assert "device binding timeout: context deadline exceeded" in "".join(cluster.said("a"))


def test_a_pod_is_not_bound_if_the_claim_made_for_its_extended_resources_is_deleted_while_it_waits() -> None:
    resource = "example.com/gpu"
    attaching = Attaching()
    cluster = attaching.cluster
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true", extendedResourceName=resource)))
    cluster.pod("a", requests={resource: "1"})
    cluster.schedule()
    write = next(one for one in cluster.sent if isinstance(one, CreateClaim))
    made = device_documents.claim("a-extended-resources-x", "gpus")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": cluster.uid("a"), "controller": True}
    annotations = {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}
    made["metadata"] |= {"ownerReferences": [owner], "annotations": annotations, "resourceVersion": "7"}
    claim = build(ResourceClaim, {**made, "status": {"allocation": msgspec.to_builtins(write.allocation)}})
    cluster.feed(WriteFinished(write.ticket, True, 201, written=claim))
    cluster.advance(10)
    assert (attaching.is_bound, attaching.why()) == (False, "")
    cluster.feed(ObjectDeleted(Kind.RESOURCE_CLAIM, claim))
    cluster.advance(2)
    assert not attaching.is_bound
    assert 'could not find ResourceClaim "default/<extended-resources>"' in attaching.why()
