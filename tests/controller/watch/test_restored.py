"""Lists that show an older state than is known, as when etcd was restored from a backup."""

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
