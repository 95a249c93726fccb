"""Answers to writes of claims that arrive late, and what the watch has shown, or has not shown, until then."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from scheduler.messages.claim_commands import ReserveClaim
from scheduler.messages.commands import PatchPodStatus
from scheduler.messages.stimuli import ObjectDeleted, WriteFinished
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind
from scheduler.objects.resource_claims import ResourceClaim, ResourceClaimStatus
from scheduler.testing.objects import build
from tests import device_documents
from tests.engine.driver import Cluster


def show_claim(cluster: Cluster, name: str, **metadata: str) -> ResourceClaim:
    document = device_documents.claim(name, "gpus")
    document["metadata"].update(metadata)
    claim = build(ResourceClaim, document)
    cluster.show(claim)
    return claim


def reserving() -> tuple[Cluster, ResourceClaim, WriteFinished]:
    """The only device is being allocated to the claim of pod a, and the answer is on its way."""
    cluster = Cluster()
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", device_documents.gpu("gpu-0"))))
    claim = show_claim(cluster, "mine", uid="first", resourceVersion="5")
    cluster.pod("a", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]})
    cluster.schedule()
    write = next(one for one in cluster.sent if isinstance(one, ReserveClaim))
    status = ResourceClaimStatus(allocation=write.allocation, reserved_for=(write.consumer,))
    allocated = replace(claim, metadata=replace(claim.metadata, resource_version="7"), status=status)
    return cluster, claim, WriteFinished(write.ticket, True, 200, written=allocated)


def places_another(cluster: Cluster) -> bool:
    """Whether the device is free for pod b's claim."""
    show_claim(cluster, "others", uid="other", resourceVersion="10")
    cluster.pod("b", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "others"}]})
    cluster.schedule_all()
    return cluster.node_of("b") == "n"


def test_a_claim_whose_deletion_was_shown_before_the_answer_to_our_write_does_not_come_back() -> None:
    cluster, claim, answer = reserving()
    cluster.delete("a")
    cluster.feed(ObjectDeleted(Kind.RESOURCE_CLAIM, claim))
    cluster.feed(answer)
    assert places_another(cluster)


def test_an_answer_about_a_claim_does_not_replace_the_next_claim_of_its_name() -> None:
    cluster, claim, answer = reserving()
    cluster.delete("a")
    cluster.feed(ObjectDeleted(Kind.RESOURCE_CLAIM, claim))
    show_claim(cluster, "mine", uid="second", resourceVersion="9")
    cluster.feed(answer)
    assert places_another(cluster)


def test_an_answer_that_comes_before_the_watch_shows_the_claim_counts() -> None:
    cluster, _, answer = reserving()
    cluster.feed(answer)
    assert not places_another(cluster)


def given_up() -> tuple[Cluster, ReserveClaim]:
    """Each of pod a's two claims was to get one of the two devices. The write of one was refused, so that pod a is
    tried again; that of the other is still open."""
    cluster = Cluster()
    cluster.node("n")
    cluster.show(build(DeviceClass, device_documents.device_class("gpus", "true")))
    devices = [device_documents.gpu(name) for name in ("gpu-0", "gpu-1")]
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n", *devices)))
    for name in ("one", "two"):
        show_claim(cluster, name)
    cluster.pod("a", spec={"resourceClaims": [{"name": name, "resourceClaimName": name} for name in ("one", "two")]})
    cluster.schedule()
    refused, still_open = [one for one in cluster.sent if isinstance(one, ReserveClaim)]
    cluster.feed(WriteFinished(refused.ticket, False, 500, "InternalError", "etcdserver: request timed out"))
    cluster.advance(3)
    cluster.schedule_all()
    assert cluster.place("a") == "unschedulable"
    return cluster, still_open


def test_a_pod_whose_claim_was_being_allocated_is_tried_again_when_the_write_has_failed() -> None:
    cluster, write = given_up()
    cluster.feed(WriteFinished(write.ticket, False, 0, "Timeout", "no answer"))
    cluster.schedule_all()
    assert cluster.node_of("a") == "n"
    assert len([one for one in cluster.sent if isinstance(one, ReserveClaim)]) == 4


def test_a_pod_whose_other_claim_could_not_be_written_keeps_the_one_that_was_and_gets_its_node() -> None:
    cluster, write = given_up()
    status = ResourceClaimStatus(allocation=write.allocation, reserved_for=(write.consumer,))
    written = replace(write.known, metadata=replace(write.known.metadata, resource_version="7"), status=status)
    cluster.feed(WriteFinished(write.ticket, True, 200, written=written))
    cluster.show(written)
    cluster.advance(20)
    cluster.schedule_all()
    assert cluster.node_of("a") == "n"
    assert [one.claim.name for one in cluster.sent if isinstance(one, ReserveClaim)] == ["one", "two", "one"]


def test_a_pod_that_waits_for_a_device_is_tried_when_its_write_for_a_pod_that_is_gone_has_failed() -> None:
    cluster, _, answer = reserving()
    assert not places_another(cluster)
    cluster.delete("a")
    cluster.advance(20)
    assert cluster.place("b") == "unschedulable"
    cluster.feed(WriteFinished(answer.ticket, False, 403, "Forbidden", "no"))
    cluster.schedule_all()
    assert cluster.node_of("b") == "n"


@pytest.mark.parametrize("is_gone", [True, False], ids=["its pod is gone", "its pod is tried again"])
def test_a_device_that_a_claim_may_have_got_without_an_answer_wakes_no_other_pod(is_gone: bool) -> None:
    """The watch shows it within seconds, if it is so."""
    cluster, _, answer = reserving()
    assert not places_another(cluster)
    if is_gone:
        cluster.delete("a")
    cluster.advance(20)
    cluster.feed(WriteFinished(answer.ticket, False, 0, "Timeout", "no answer"))
    assert cluster.place("b") == "unschedulable"


def test_a_pod_that_waits_for_a_device_is_tried_when_the_claim_that_was_to_get_it_is_deleted() -> None:
    cluster, claim, answer = reserving()
    assert not places_another(cluster)
    cluster.delete("a")
    cluster.advance(20)
    cluster.feed(ObjectDeleted(Kind.RESOURCE_CLAIM, claim))
    cluster.schedule_all()
    assert cluster.node_of("b") == "n"
    cluster.feed(WriteFinished(answer.ticket, False, 404, "NotFound", "gone"))


def test_a_nomination_that_the_watch_has_not_shown_for_a_minute_is_taken_back_all_the_same() -> None:
    """It was announced before the claim was written; the watch of pods has a gap."""
    cluster, _, answer = reserving()
    cluster.advance(60)
    cluster.feed(WriteFinished(answer.ticket, False, 404, "NotFound", "gone"))
    written = [one.nominated_node_name for one in cluster.sent if isinstance(one, PatchPodStatus)]
    assert written == ["n", ""]
