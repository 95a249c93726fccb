"""Lists after a gap: what happened in it comes in another order, or etcd was restored to an older state."""

from __future__ import annotations

from scheduler import testing
from scheduler.controller.watch.mirror import Mirror
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.objects.wire import ListPage
from scheduler.testing.objects import build
from tests import device_documents
from tests.engine.driver import Cluster

HELD = {"devices": {"results": [{"request": "r", "driver": device_documents.DRIVER, "pool": "n", "device": "gpu-0"}]}}


class Listed:
    """An engine that a list of one kind is passed to, again and again."""

    def __init__(self, kind: Kind) -> None:
        self.cluster = Cluster()
        self._mirror = Mirror(kind)

    def shows(self, *objects: ApiObject) -> None:
        self._mirror.begin_list()
        page = ListPage("1", "", objects)
        for stimulus in [*self._mirror.take_page(page), *self._mirror.end_list()]:
            self.cluster.feed(stimulus)
        self.cluster.engine.check()


def a_claim(name: str, version: str, allocation: object = None) -> ResourceClaim:
    document = device_documents.claim(name, "gpus")
    document["metadata"] |= {"uid": name, "resourceVersion": version}
    return build(ResourceClaim, {**document, "status": {"allocation": allocation} if allocation else {}})


def test_a_pod_that_is_no_longer_bound_gives_its_room_back_and_is_placed_again() -> None:
    listed = Listed(Kind.POD)
    cluster = listed.cluster
    cluster.node("n", cpu="4")
    listed.shows(testing.pod("a", cpu="3", resource_version="7", node="n"))
    assert cluster.node_of("a") == "n"
    listed.shows(testing.pod("a", cpu="3", resource_version="5"))
    assert cluster.node_of("a") == ""
    cluster.schedule_all()
    assert cluster.node_of("a") == "n"
    cluster.engine.check()


def test_a_claim_that_is_no_longer_allocated_frees_its_devices() -> None:
    listed = Listed(Kind.RESOURCE_CLAIM)
    cluster = listed.cluster
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", device_documents.gpu("gpu-0"))))
    listed.shows(a_claim("first", "7", HELD), a_claim("mine", "4"))
    cluster.pod("a", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]})
    cluster.schedule_all()
    assert cluster.node_of("a") == ""
    listed.shows(a_claim("first", "5"), a_claim("mine", "4"))
    cluster.advance(330)
    cluster.schedule_all()
    assert cluster.node_of("a") == "n"


def waiting_for(listed: Listed, *claims: str) -> None:
    """Pods that wait for the only device, each with its claim."""
    cluster = listed.cluster
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", device_documents.gpu("gpu-0"))))
    for name in claims:
        cluster.pod(name, spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]})


def test_a_device_that_has_gone_from_one_claim_to_another_during_a_gap_is_taken() -> None:
    """Another scheduler gave it to the claim that the list shows first."""
    for gave_up in ((), (a_claim("z", "9"),)):
        listed = Listed(Kind.RESOURCE_CLAIM)
        listed.shows(a_claim("a", "4"), a_claim("mine", "5"), a_claim("z", "6", HELD))
        listed.shows(a_claim("a", "8", HELD), a_claim("mine", "5"), *gave_up)
        waiting_for(listed, "mine")
        listed.cluster.schedule_all()
        assert listed.cluster.node_of("mine") == ""


def test_a_device_that_was_given_up_during_a_gap_wakes_who_waits_for_it() -> None:
    listed = Listed(Kind.RESOURCE_CLAIM)
    listed.shows(a_claim("mine", "5"), a_claim("z", "6", HELD))
    waiting_for(listed, "mine")
    listed.cluster.schedule_all()
    listed.shows(a_claim("mine", "5"), a_claim("z", "9"))
    listed.cluster.advance(20)
    listed.cluster.schedule_all()
    assert listed.cluster.node_of("mine") == "n"
