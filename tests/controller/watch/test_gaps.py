"""Lists after a gap: what happened in it comes in another order, or etcd was restored to an older state."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from scheduler import testing
from scheduler.controller.watch.mirror import Mirror
from scheduler.messages.claim_commands import CreateClaim
from scheduler.messages.stimuli import Stimulus, WriteFinished
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject, OwnerReference
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim
from scheduler.objects.wire import ListPage, WatchEvent
from scheduler.testing.objects import build
from tests import device_documents
from tests.engine.driver import Cluster

HELD = {"devices": {"results": [{"request": "r", "driver": device_documents.DRIVER, "pool": "n", "device": "gpu-0"}]}}


class Listed:
    """An engine that a list of one kind is passed to, again and again."""

    def __init__(self, kind: Kind) -> None:
        self.cluster = Cluster()
        self._mirror = Mirror(kind)

    def answers(self, ticket: int, written: ApiObject) -> None:
        """The API server answers a write with the object, which its list shows later, if at all."""
        self.cluster.feed(WriteFinished(ticket, True, 200, written=written))
        for stimulus in self._mirror.answered(written):
            self.cluster.feed(stimulus)

    def watches(self, type_: str, obj: ApiObject) -> None:
        stimuli: list[Stimulus] = []
        self._mirror.take_event(WatchEvent(type_, obj), stimuli)
        for stimulus in stimuli:
            self.cluster.feed(stimulus)

    def shows(self, *objects: ApiObject, meanwhile: Callable[[], None] = lambda: None) -> None:
        """``meanwhile``: what happens between the answer of the API server and the end of the list."""
        self._mirror.begin_list()
        page = ListPage("1", "", objects)
        meanwhile()
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


def test_a_claim_whose_allocation_was_answered_and_is_gone_frees_its_devices() -> None:
    """No watch had shown that it was allocated."""
    listed = Listed(Kind.RESOURCE_CLAIM)
    listed.shows(a_claim("first", "4"), a_claim("mine", "5"))
    waiting_for(listed, "mine")
    listed.answers(100, a_claim("first", "7", HELD))
    listed.cluster.schedule_all()
    assert listed.cluster.node_of("mine") == ""
    listed.shows(a_claim("first", "4"), a_claim("mine", "5"))
    listed.cluster.advance(330)
    listed.cluster.schedule_all()
    assert listed.cluster.node_of("mine") == "n"


def test_a_claim_whose_allocation_was_answered_while_a_list_was_under_way_keeps_its_devices() -> None:
    listed = Listed(Kind.RESOURCE_CLAIM)
    listed.shows(a_claim("first", "4"), a_claim("mine", "5"))
    waiting_for(listed, "mine")
    listed.shows(
        a_claim("first", "4"),
        a_claim("mine", "5"),
        meanwhile=lambda: listed.answers(100, a_claim("first", "7", HELD)),
    )
    listed.cluster.schedule_all()
    assert listed.cluster.node_of("mine") == ""


def test_a_version_that_is_given_out_again_after_the_state_went_back_is_another_one() -> None:
    listed = Listed(Kind.POD)
    cluster = listed.cluster
    cluster.node("n", cpu="4")
    listed.watches("ADDED", testing.pod("a", cpu="3", resource_version="7", node="n"))
    assert cluster.node_of("a") == "n"
    listed.shows(testing.pod("a", cpu="3", resource_version="7", labels={"seen": "never"}))
    assert cluster.node_of("a") == ""
    cluster.schedule_all()
    assert cluster.node_of("a") == "n"


def waiting_for(listed: Listed, *claims: str, resource: str | None = None) -> None:
    """Pods that wait for the only device, each with its claim. ``resource``: the extended one that it stands for."""
    cluster = listed.cluster
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true", extendedResourceName=resource)))
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


def making_a_claim() -> tuple[Listed, CreateClaim, ResourceClaim]:
    """The only device is for pod a, which asks for it as an extended resource; the claim that is made for it."""
    listed = Listed(Kind.RESOURCE_CLAIM)
    waiting_for(listed, resource="example.com/gpu")
    cluster = listed.cluster
    cluster.pod("a", requests={"example.com/gpu": "1"})
    cluster.schedule_all()
    write = next(one for one in cluster.sent if isinstance(one, CreateClaim))
    made = a_claim("made", "7", HELD)
    owner = OwnerReference(api_version="v1", kind="Pod", name="a", uid=write.pod.uid, controller=True)
    metadata = replace(
        made.metadata, annotations={EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}, owner_references=(owner,)
    )
    return listed, write, replace(made, metadata=metadata)


def places_another(listed: Listed) -> bool:
    """Whether the device is free for pod b."""
    listed.cluster.delete("a")
    listed.cluster.pod("b", requests={"example.com/gpu": "1"})
    listed.cluster.schedule_all()
    return listed.cluster.node_of("b") == "n"


def test_a_claim_that_was_made_and_deleted_within_a_gap_gives_its_device_back() -> None:
    listed, write, made = making_a_claim()
    listed.answers(write.ticket, made)
    listed.shows()
    assert places_another(listed)


def test_a_claim_that_was_made_before_a_list_without_it_was_complete_keeps_its_device() -> None:
    """It may be younger than the list."""
    listed, write, made = making_a_claim()
    listed.shows(meanwhile=lambda: listed.answers(write.ticket, made))
    assert not places_another(listed)


def test_a_claim_that_the_watch_has_shown_keeps_its_device_until_its_end_is_shown() -> None:
    listed, write, made = making_a_claim()
    listed.answers(write.ticket, made)
    listed.watches("ADDED", made)
    listed.shows(made)
    assert not places_another(listed)
    listed.shows()
    listed.cluster.advance(330)
    listed.cluster.schedule_all()
    assert listed.cluster.node_of("b") == "n"


def test_a_claim_whose_deletion_was_shown_before_the_answer_of_its_creation_gives_its_device_back() -> None:
    listed, write, made = making_a_claim()
    listed.watches("ADDED", made)
    listed.watches("DELETED", replace(made, metadata=replace(made.metadata, resource_version="9")))
    listed.answers(write.ticket, made)
    assert places_another(listed)
