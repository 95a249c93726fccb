"""Groups of pods that share ResourceClaims: one of a pod's own, or one of the PodGroup (dra.md, podgroups.md §9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.cluster.devices.allocated import Holdings
from scheduler.messages.claim_commands import ClaimCommand, DeallocateClaim, ReserveClaim, UnreserveClaim
from scheduler.messages.stimuli import WakingContinued
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.pod_group import PodGroup
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.testing.objects import build
from tests import device_documents
from tests.engine.gangs import GANGS, TOPOLOGY, ZONE, Gangs, group, topology

GROUP_CLAIMS = f"{GANGS},DRAWorkloadResourceClaims=true"
ON_N0 = {
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
    },
    "devices": {"results": [{"request": "r", "driver": device_documents.DRIVER, "pool": "n0", "device": "gpu0"}]},
}
OF_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group-g"}


def with_devices(gates: str, nodes: int = 2, cpu: str = "8", devices_on: int = 1) -> Gangs:
    """Nodes n0, n1, ...; each of the first ``devices_on`` has a device."""
    cluster = Gangs(gates)
    cluster.nodes_like(nodes, cpu=cpu)
    expression = f'device.driver == "{device_documents.DRIVER}"'
    cluster.show(build(DeviceClass, device_documents.device_class("gpu", expression)))
    for number in range(devices_on):
        devices = device_documents.resource_slice(f"n{number}", device_documents.gpu("gpu0"))
        cluster.show(build(ResourceSlice, devices))
    return cluster


def show_claim(cluster: Gangs, name: str = "shared", **fields: Any) -> None:
    document = device_documents.claim(name, "gpu")
    document["metadata"].update(fields.pop("metadata", {}))
    cluster.show(build(ResourceClaim, {**document, **fields}))


def claimants(cluster: Gangs, count: int, entry: dict[str, str], **fields: Any) -> None:
    for number in range(count):
        cluster.member(f"g{number}", cpu="1", spec={"resourceClaims": [{"name": "gpu", **entry}]}, **fields)


def commands(cluster: Gangs) -> list[ClaimCommand]:
    return [one for one in cluster.sent if isinstance(one, ReserveClaim | UnreserveClaim | DeallocateClaim)]


def test_members_that_share_a_claim_start_together_on_the_node_of_its_device() -> None:
    cluster = with_devices(GANGS)
    show_claim(cluster)
    cluster.group(min_count=3)
    claimants(cluster, 3, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    assert {cluster.node_of(f"g{number}") for number in range(3)} == {"n0"}
    writes = commands(cluster)
    assert {one.consumer.name for one in writes if isinstance(one, ReserveClaim)} == {"g0", "g1", "g2"}
    allocations = [one.allocation for one in writes if isinstance(one, ReserveClaim)]
    assert allocations[0] is not None
    assert all(one == allocations[0] for one in allocations)
    cluster.engine.check()


def test_members_that_share_a_claim_hold_nothing_if_its_node_is_too_small_for_all() -> None:
    cluster = with_devices(GANGS, cpu="2")
    show_claim(cluster)
    cluster.group(min_count=3)
    claimants(cluster, 3, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    assert cluster.engine.cache.assumed_count == 0
    assert cluster.engine.cache.devices.in_flight == Holdings()
    assert commands(cluster) == []
    cluster.engine.check()


def test_a_pod_of_no_group_waits_until_a_claim_is_allocated_for_another() -> None:
    cluster = with_devices(GANGS)
    show_claim(cluster)
    for name in ("a", "b"):
        cluster.pod(name, cpu="1", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]})
    cluster.schedule_all()
    said = cluster.attempt("b").diagnosis
    assert said is not None
    assert "is in the process of being allocated" in str(cluster.reason_of("b"))


@pytest.mark.parametrize("source", ["resourceClaimName", "resourceClaimTemplateName"])
def test_a_claim_of_the_group_is_reserved_for_the_group(source: str) -> None:
    cluster = with_devices(GROUP_CLAIMS)
    entry = {source: "shared" if source == "resourceClaimName" else "template"}
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": "group-g"}
    show_claim(cluster, metadata={"ownerReferences": [{**owner, "controller": True}]})
    cluster.group(min_count=2, resourceClaims=[{"name": "gpu", **entry}])
    claimants(cluster, 2, entry, status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "shared"}]})
    cluster.schedule_all()
    assert {cluster.node_of(f"g{number}") for number in range(2)} == {"n0"}
    consumers = [one.consumer for one in commands(cluster) if isinstance(one, ReserveClaim)]
    assert {(one.resource, one.name, one.uid) for one in consumers} == {("podgroups", "g", "group-g")}
    cluster.engine.check()


def test_a_claim_of_the_group_wakes_a_member_beside_one_whose_status_does_not_name_it_yet() -> None:
    cluster = with_devices(GROUP_CLAIMS)
    entry = {"resourceClaimTemplateName": "template"}
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": "group-g"}
    cluster.group(min_count=1, resourceClaims=[{"name": "gpu", **entry}])
    spec = {"resourceClaims": [{"name": "gpu", **entry}]}
    cluster.member("unnamed", cpu="1", spec=spec)
    made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "shared"}]}
    cluster.member("named", cpu="1", spec=spec, status=made)
    cluster.schedule_all()
    assert cluster.bound() == {}
    show_claim(cluster, metadata={"ownerReferences": [{**owner, "controller": True}]})
    cluster.schedule_all()
    assert cluster.node_of("named") == "n0"


def test_a_claim_that_is_reserved_for_the_group_needs_no_write_for_a_later_member() -> None:
    cluster = with_devices(GROUP_CLAIMS)
    show_claim(cluster, status={"allocation": ON_N0, "reservedFor": [OF_GROUP]})
    cluster.group(min_count=1, resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    claimants(cluster, 1, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    assert cluster.node_of("g0") == "n0"
    assert commands(cluster) == []
    assert list(cluster.bound()) == ["g0"]


def test_a_claim_of_the_pod_is_reserved_for_the_pod_although_the_group_has_claims() -> None:
    cluster = with_devices(GROUP_CLAIMS)
    show_claim(cluster)
    cluster.group(min_count=1, resourceClaims=[{"name": "other", "resourceClaimName": "shared"}])
    claimants(cluster, 1, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    assert [one.consumer.resource for one in commands(cluster) if isinstance(one, ReserveClaim)] == ["pods"]


def test_without_the_gate_a_claim_made_for_the_group_is_not_the_pods() -> None:
    cluster = with_devices(GANGS)
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": "group-g"}
    show_claim(cluster, metadata={"ownerReferences": [{**owner, "controller": True}]})
    cluster.group(min_count=1)
    made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "shared"}]}
    claimants(cluster, 1, {"resourceClaimTemplateName": "template"}, status=made)
    cluster.schedule_all()
    record = cluster.engine.queue.find("default/g0")
    assert record is not None
    assert record.gating_reasons == (
        "ResourceClaim default/shared was not created for Pod default/g0 (Pod is not owner)",
    )


def test_the_claim_of_a_group_that_does_not_fit_loses_its_reservation_and_then_its_devices() -> None:
    cluster = with_devices(GROUP_CLAIMS, devices_on=2)
    cluster.pod("there", cpu="7", node="n0")
    show_claim(cluster, status={"allocation": ON_N0, "reservedFor": [OF_GROUP]})
    cluster.group(min_count=2, resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    claimants(cluster, 2, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    assert cluster.bound() == {}
    (write,) = commands(cluster)
    assert isinstance(write, UnreserveClaim)
    assert (write.consumer.name, write.consumer.uid) == ("g", "group-g")
    assert "ResourceClaim unreserved for PodGroup" in str([cluster.reason_of(f"g{number}") for number in range(2)])
    show_claim(cluster, status={"allocation": ON_N0}, metadata={"resourceVersion": "2"})
    cluster.schedule_all()
    assert isinstance(commands(cluster)[-1], DeallocateClaim)
    show_claim(cluster, metadata={"resourceVersion": "3"})
    cluster.schedule_all()
    assert {cluster.node_of(f"g{number}") for number in range(2)} == {"n1"}


def with_room_for_a_claimant_to_make(entry: dict[str, str], *made: dict[str, str]) -> Gangs:
    """A pod of a group with a claim of its own, tried on a full node. ``made``: what the group's status says of its
    claims."""
    cluster = with_devices(GROUP_CLAIMS, nodes=1, cpu="1")
    cluster.pod("victim", cpu="1", node="n0", priority=-1)
    show_claim(cluster)
    document = msgspec.to_builtins(group(min_count=1, resourceClaims=[{"name": "of-group", **entry}]))
    document["status"] = {"resourceClaimStatuses": made}
    cluster.show(build(PodGroup, document))
    claimants(cluster, 1, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    return cluster


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"resourceClaimTemplateName": "template"}, "PodGroup default/g: ResourceClaim not created yet"),
        ({"resourceClaimName": "other"}, 'could not find ResourceClaim "default/other"'),
    ],
)
def test_no_room_is_made_for_a_pod_with_a_claim_while_a_claim_of_its_group_is_missing(
    entry: dict[str, str], text: str
) -> None:
    cluster = with_room_for_a_claimant_to_make(entry)
    assert cluster.reason_of("g0")[1] == f"0/1 nodes are available: 1 Insufficient cpu. {text}"
    assert cluster.nominated("g0") == ""


def test_room_is_made_for_a_pod_with_a_claim_whose_group_needs_none() -> None:
    cluster = with_room_for_a_claimant_to_make({"resourceClaimTemplateName": "template"}, {"name": "of-group"})
    assert cluster.nominated("g0") == "n0"


def test_a_claim_keeps_its_devices_where_its_gang_does_not_fit_in_one_domain_and_fits_in_another() -> None:
    cluster = Gangs(TOPOLOGY)
    for number in range(3):
        cluster.node(f"n{number}", cpu="8", labels={ZONE: f"zone-{number}"})
    show_claim(cluster, status={"allocation": ON_N0})
    cluster.group(min_count=1, **topology())
    claimants(cluster, 1, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    assert cluster.node_of("g0") == "n0"
    assert [type(one) for one in commands(cluster)] == [ReserveClaim]


def test_a_member_that_does_not_fit_takes_a_claim_from_the_one_placed_with_it_only_as_it_was_before() -> None:
    cluster = with_devices(GANGS, cpu="1")
    show_claim(cluster, status={"allocation": ON_N0}, metadata={"resourceVersion": "7"})
    cluster.group(min_count=1)
    claimants(cluster, 2, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    assert cluster.node_of("g0") == "n0"
    reserve, deallocate = commands(cluster)
    assert isinstance(reserve, ReserveClaim)
    assert isinstance(deallocate, DeallocateClaim)
    # Once the claim is reserved this one is a conflict.
    assert deallocate.resource_version == "7"


def test_the_claim_of_a_group_of_which_a_pod_runs_stays_reserved() -> None:
    cluster = with_devices(GROUP_CLAIMS, devices_on=2)
    cluster.pod("there", cpu="7", node="n0")
    show_claim(cluster, status={"allocation": ON_N0, "reservedFor": [OF_GROUP]})
    cluster.group(min_count=2, resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    cluster.member("running", cpu="1", node="n0")
    claimants(cluster, 1, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    assert commands(cluster) == []


def test_with_the_gate_a_pod_with_claims_whose_group_is_gone_is_not_tried() -> None:
    cluster = with_devices("GenericWorkload=true,DRAWorkloadResourceClaims=true")
    show_claim(cluster)
    claimants(cluster, 1, {"resourceClaimName": "shared"})
    cluster.schedule_all()
    assert 'podgroup.scheduling.k8s.io "g" not found' in cluster.reason_of("g0")[1]


def test_a_pod_that_was_tried_while_a_group_held_the_device_is_woken_when_the_group_gives_it_back() -> None:
    """The members count on their nodes one after the other, and other pods are tried in between."""
    cluster = with_devices(GANGS)
    show_claim(cluster, "of-group")
    show_claim(cluster, "of-x")
    cluster.group(min_count=3)
    claimants(cluster, 1, {"resourceClaimName": "of-group"})
    for name in ("g1", "g2", "g3"):
        cluster.member(name, cpu="1")
    while not cluster.node_of("g0"):
        cluster.schedule()
    cluster.pod("x", cpu="1", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "of-x"}]})
    cluster.schedule()
    assert cluster.place("x") == "unschedulable"
    for name in ("g1", "g2", "g3"):
        cluster.delete(name)
    while cluster.node_of("g0"):
        cluster.schedule()
    assert cluster.place("x") == "backoff"
    cluster.schedule_all()
    cluster.advance(1)
    cluster.schedule_all()
    assert (cluster.node_of("g0"), cluster.node_of("x")) == ("", "n0")


def test_with_the_gate_a_pod_without_claims_whose_group_is_gone_is_placed() -> None:
    cluster = Gangs("GenericWorkload=true,DRAWorkloadResourceClaims=true")
    cluster.nodes_like(1)
    cluster.member("g0")
    cluster.schedule_all()
    assert cluster.node_of("g0") == "n0"


def test_a_member_whose_devices_are_searched_for_at_length_starts_with_pauses_on_the_way() -> None:
    cluster = Gangs(GANGS)
    cluster.nodes_like(1, cpu="8")
    cluster.show(build(DeviceClass, device_documents.device_class("gpu", "true")))
    gpus = [device_documents.gpu(f"gpu{number}") for number in range(6)]
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n0", *gpus)))
    # The first alternative leaves one device too few, which takes all ways to give the others away to find out.
    either = [{"name": f"a{count}", **device_documents.exactly("gpu", count=count)} for count in (2, 1)]
    others = [{"name": f"r{number}", "exactly": device_documents.exactly("gpu")} for number in range(5)]
    requests: list[dict[str, Any]] = [{"name": "either", "firstAvailable": either}, *others]
    cluster.show(build(ResourceClaim, device_documents.claim("hard", requests=requests)))
    cluster.group(min_count=1)
    cluster.member("g0", cpu="1", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "hard"}]})
    pauses = 0
    for _ in range(100):
        cluster.schedule()
        while cluster.engine.is_waking:
            cluster.feed(WakingContinued())
            pauses += 1
    assert pauses >= 2
    assert cluster.node_of("g0") == "n0"
