from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.devices.allocated import Holdings
from scheduler.cluster.devices.pools import PoolState
from scheduler.cluster.devices.reserved import ClaimInFlight, GiveBack, SetAside
from scheduler.cluster.pod_info import PodInfo
from scheduler.errors import InvariantViolation
from scheduler.objects.kinds import Kind, decode
from scheduler.objects.resource_claims import Allocation, DeviceAllocation, DeviceResult
from scheduler.testing.objects import node, pod
from tests.device_documents import DRIVER, claim, gpu, resource_slice


def show(cache: ClusterCache, kind: Kind, document: dict[str, Any]) -> None:
    cache.observe_object(kind, decode(kind, msgspec.json.encode(document)))


def cluster(count: int = 2) -> ClusterCache:
    cache = ClusterCache()
    for number in range(count):
        cache.observe_node(node(f"n{number}"))
        show(cache, Kind.RESOURCE_SLICE, resource_slice(f"n{number}", gpu("gpu-0"), gpu("gpu-1")))
    return cache


def row(cache: ClusterCache, name: str) -> int:
    found = cache.table.row(name)
    assert found is not None
    return found


def allocation(pool: str, device: str) -> Allocation:
    result = DeviceResult(request="r", driver=DRIVER, pool=pool, device=device)
    return Allocation(devices=DeviceAllocation(results=(result,)))


def held(name: str, pool: str, device: str) -> dict[str, Any]:
    return {**claim(name, "gpus"), "status": {"allocation": msgspec.to_builtins(allocation(pool, device))}}


def states(cache: ClusterCache, name: str) -> list[PoolState]:
    return [pool.state for pool in cache.devices.pools(row(cache, name))]


def with_pool(name: str, node_name: str, generation: int, count: int, *devices: dict[str, Any]) -> dict[str, Any]:
    made = resource_slice(node_name, *devices, pool="p", name=name)
    made["spec"]["pool"] = {"name": "p", "generation": generation, "resourceSliceCount": count}
    return made


def test_nodes_with_equal_devices_look_alike_until_one_of_them_is_taken() -> None:
    cache = cluster()
    look = [cache.devices.signature(row(cache, name)) for name in ("n0", "n1")]
    assert look[0] == look[1]
    show(cache, Kind.RESOURCE_CLAIM, held("c", "n0", "gpu-0"))
    assert cache.devices.signature(row(cache, "n0")) != look[0]
    assert cache.devices.signature(row(cache, "n1")) == look[1]
    show(cache, Kind.RESOURCE_CLAIM, held("d", "n1", "gpu-0"))
    assert cache.devices.signature(row(cache, "n0")) == cache.devices.signature(row(cache, "n1"))


def test_a_change_of_one_nodes_devices_concerns_no_other_node() -> None:
    cache = cluster()
    before, common = cache.devices.row_versions().copy(), cache.devices.common_version
    show(cache, Kind.RESOURCE_CLAIM, held("c", "n0", "gpu-0"))
    changed = cache.devices.row_versions() != before
    assert [bool(changed[row(cache, name)]) for name in ("n0", "n1")] == [True, False]
    assert cache.devices.common_version == common


def test_devices_set_aside_count_until_the_api_server_shows_the_allocation() -> None:
    cache = cluster()
    show(cache, Kind.RESOURCE_CLAIM, claim("c", "gpus"))
    pending = PodInfo(pod("p")).on_node("n0")
    cache.assume(pending)
    cache.apply(SetAside(pending.uid, "n0", (ClaimInFlight("claim-c", "default/c", allocation("n0", "gpu-0")),)))
    assert cache.devices.pods_with_claim_in_flight("claim-c") == (pending.uid,)
    assert cache.devices.in_flight.taken_in((DRIVER, "n0")) == {"gpu-0": "default/c"}
    cache.check()
    show(cache, Kind.RESOURCE_CLAIM, held("c", "n0", "gpu-0"))
    assert cache.devices.pods_with_claim_in_flight("claim-c") is None
    assert not cache.devices.in_flight.taken_in((DRIVER, "n0"))
    assert cache.devices.stored.taken_in((DRIVER, "n0")) == {"gpu-0": "default/c"}
    cache.apply(GiveBack(pending.uid))
    cache.check()


def test_a_claim_that_pods_share_is_in_flight_until_the_last_of_them_gives_it_back() -> None:
    cache = cluster()
    one, other = PodInfo(pod("p")).on_node("n0"), PodInfo(pod("q")).on_node("n0")
    in_flight = (ClaimInFlight("claim-c", "default/c", allocation("n0", "gpu-0")),)
    for pending in (one, other):
        cache.assume(pending)
        cache.apply(SetAside(pending.uid, "n0", in_flight))
    cache.apply(GiveBack(one.uid))
    cache.check()
    assert cache.devices.pods_with_claim_in_flight("claim-c") == (other.uid,)
    assert cache.devices.in_flight.taken_in((DRIVER, "n0")) == {"gpu-0": "default/c"}
    cache.apply(GiveBack(other.uid))
    cache.check()
    assert not cache.devices.in_flight.taken_in((DRIVER, "n0"))


def test_a_claim_is_in_flight_with_one_allocation_only() -> None:
    cache = cluster()
    one, other = PodInfo(pod("p")).on_node("n0"), PodInfo(pod("q")).on_node("n0")
    for pending in (one, other):
        cache.assume(pending)
    cache.apply(SetAside(one.uid, "n0", (ClaimInFlight("claim-c", "default/c", allocation("n0", "gpu-0")),)))
    with pytest.raises(InvariantViolation):
        cache.apply(SetAside(other.uid, "n0", (ClaimInFlight("claim-c", "default/c", allocation("n0", "gpu-1")),)))


def test_a_device_given_twice_is_found_by_the_check() -> None:
    cache = cluster()
    show(cache, Kind.RESOURCE_CLAIM, held("c", "n0", "gpu-0"))
    pending = PodInfo(pod("p")).on_node("n0")
    cache.assume(pending)
    cache.apply(SetAside(pending.uid, "n0", (ClaimInFlight("claim-d", "default/d", allocation("n0", "gpu-0")),)))
    with pytest.raises(InvariantViolation, match="allocated and set aside for another claim"):
        cache.check()


def test_a_claim_that_is_deleted_frees_its_devices() -> None:
    cache = cluster()
    show(cache, Kind.RESOURCE_CLAIM, held("c", "n0", "gpu-0"))
    cache.remove_object(Kind.RESOURCE_CLAIM, "default/c")
    assert not cache.devices.stored.taken_in((DRIVER, "n0"))


def test_a_pool_is_complete_when_all_its_slices_are_there() -> None:
    cache = ClusterCache()
    cache.observe_node(node("n0"))
    show(cache, Kind.RESOURCE_SLICE, with_pool("s1", "n0", 1, 2, gpu("a")))
    assert states(cache, "n0") == [PoolState.INCOMPLETE]
    show(cache, Kind.RESOURCE_SLICE, with_pool("s2", "n0", 1, 2, gpu("b")))
    assert states(cache, "n0") == [PoolState.COMPLETE]
    show(cache, Kind.RESOURCE_SLICE, with_pool("s2", "n0", 1, 2, gpu("a")))
    assert states(cache, "n0") == [PoolState.INVALID], "two devices of one name"


def test_an_old_generation_that_is_complete_on_a_node_is_used_there() -> None:
    cache = ClusterCache()
    for name in ("n0", "n1"):
        cache.observe_node(node(name))
    show(cache, Kind.RESOURCE_SLICE, with_pool("s1", "n0", 1, 1, gpu("a")))
    show(cache, Kind.RESOURCE_SLICE, with_pool("s2", "n1", 2, 1, gpu("b")))
    assert states(cache, "n0") == states(cache, "n1") == [PoolState.COMPLETE]


def test_an_old_generation_that_is_incomplete_vanishes() -> None:
    cache = ClusterCache()
    for name in ("n0", "n1"):
        cache.observe_node(node(name))
    show(cache, Kind.RESOURCE_SLICE, with_pool("s1", "n0", 1, 2, gpu("a")))
    show(cache, Kind.RESOURCE_SLICE, with_pool("s2", "n1", 2, 1, gpu("b")))
    assert states(cache, "n0") == []


def in_flight(cache: ClusterCache, name: str, device: str) -> PodInfo:
    """A pod on n0 for which a device is set aside."""
    pending = PodInfo(pod(name)).on_node("n0")
    cache.assume(pending)
    claims = (ClaimInFlight(f"claim-{name}", f"default/{name}", allocation("n0", device)),)
    cache.apply(SetAside(pending.uid, "n0", claims))
    return pending


def test_an_allocation_that_lands_as_it_was_decided_changes_no_answer() -> None:
    cache = cluster()
    in_flight(cache, "c", "gpu-0")
    look, versions = cache.devices.signature(row(cache, "n0")), cache.devices.row_versions().copy()
    show(cache, Kind.RESOURCE_CLAIM, held("c", "n0", "gpu-0"))
    assert (cache.devices.row_versions() == versions).all()
    cache.devices.node_changed(row(cache, "n0"))
    assert cache.devices.signature(row(cache, "n0")) == look


def test_an_allocation_that_lands_otherwise_than_decided_does() -> None:
    cache = cluster()
    in_flight(cache, "c", "gpu-0")
    look = cache.devices.signature(row(cache, "n0"))
    show(cache, Kind.RESOURCE_CLAIM, held("c", "n0", "gpu-1"))
    assert cache.devices.signature(row(cache, "n0")) != look
    assert not cache.devices.in_flight.taken_in((DRIVER, "n0"))


def test_nodes_on_which_as_much_is_shared_look_alike_for_any_consumers() -> None:
    cache = cluster()
    for number in range(2):
        share = {"request": "r", "driver": DRIVER, "pool": f"n{number}", "device": "gpu-0", "shareID": f"s{number}"}
        results = [{**share, "consumedCapacity": {"memory": "10Gi"}}]
        document = claim(f"c{number}", "gpus")
        document["status"] = {"allocation": {"devices": {"results": results}}}
        show(cache, Kind.RESOURCE_CLAIM, document)
    assert cache.devices.signature(row(cache, "n0")) == cache.devices.signature(row(cache, "n1"))


def part_of_a_device(name: str, pool: str) -> dict[str, Any]:
    """A claim that has 1 GiB of the pool's first device."""
    share = {"request": "r", "driver": DRIVER, "pool": pool, "device": "gpu-0", "shareID": f"share-{name}"}
    results = [{**share, "consumedCapacity": {"memory": "1Gi"}}]
    return {**claim(name, "gpus"), "status": {"allocation": {"devices": {"results": results}}}}


def test_nodes_on_which_one_claim_and_two_have_the_same_device_in_parts_do_not_look_alike() -> None:
    cache = cluster()
    for name, pool in (("a", "n0"), ("b", "n1"), ("c", "n1")):
        show(cache, Kind.RESOURCE_CLAIM, part_of_a_device(name, pool))
    assert cache.devices.signature(row(cache, "n0")) != cache.devices.signature(row(cache, "n1"))


def test_devices_whose_claim_could_not_be_written_for_a_pod_that_is_gone_count_for_kept_scores_again() -> None:
    cache = cluster()
    cache.devices.write_sent(1, "claim-c")
    gone = in_flight(cache, "c", "gpu-0")
    cache.forget(gone.uid)
    assert cache.devices.in_flight.taken_in((DRIVER, "n0")), "the write may still be done"
    before = cache.devices.version
    cache.devices.write_finished(1)
    assert not cache.devices.in_flight.taken_in((DRIVER, "n0"))
    assert cache.devices.version > before


def test_devices_whose_claim_could_not_be_written_for_a_pod_that_is_gone_are_announced_as_given_up() -> None:
    cache = cluster()
    cache.devices.write_sent(1, "claim-c")
    cache.forget(in_flight(cache, "c", "gpu-0").uid)
    assert not cache.devices.take_given_up(), "the write may still be done"
    cache.devices.write_finished(1)
    [given_up] = cache.devices.take_given_up()
    assert (given_up.before.key, given_up.claim.key) == ("default/c", "default/c")


def test_of_devices_that_all_claims_have_given_back_nothing_is_kept() -> None:
    cache = cluster()
    show(cache, Kind.RESOURCE_CLAIM, part_of_a_device("c", "n0"))
    show(cache, Kind.RESOURCE_CLAIM, claim("c", "gpus"))
    assert cache.devices.stored == Holdings()


# --- forks ------------------------------------------------------------------------------------------------------------


def seen(cache: ClusterCache) -> dict[str, Any]:
    """What may be asked of the devices, by names."""
    pools = {name: cache.devices.pools(row(cache, name)) for name in ("n0", "n1")}
    return {
        "devices": {name: [one.device.id for pool in found for one in pool.devices] for name, found in pools.items()},
        "stored": set(cache.devices.stored),
        "in flight": set(cache.devices.in_flight),
        "alike": cache.devices.signature(row(cache, "n0")) == cache.devices.signature(row(cache, "n1")),
    }


def everything_changes(cache: ClusterCache) -> None:
    show(cache, Kind.RESOURCE_CLAIM, held("new", "n1", "gpu-1"))
    in_flight(cache, "flying", "gpu-1")
    show(cache, Kind.RESOURCE_SLICE, resource_slice("n0", gpu("gpu-1"), gpu("gpu-2")))
    cache.remove_object(Kind.RESOURCE_CLAIM, "default/old")


@pytest.mark.parametrize("is_fork_first", [True, False])
def test_what_one_side_of_a_fork_does_with_devices_the_other_does_not_see(is_fork_first: bool) -> None:
    cache = cluster()
    show(cache, Kind.RESOURCE_CLAIM, held("old", "n0", "gpu-0"))
    before = seen(cache)
    fork = cache.fork()
    one, other = (fork, cache) if is_fork_first else (cache, fork)
    assert seen(one) == seen(other) == before
    everything_changes(one)
    assert seen(one) != before
    assert seen(other) == before
    everything_changes(other)
    assert seen(other) == seen(one)
    for side in (one, other):
        side.check()


def test_a_fork_copies_neither_slices_nor_claims() -> None:
    cache = cluster()
    show(cache, Kind.RESOURCE_CLAIM, held("old", "n0", "gpu-0"))
    pools = cache.devices.pools(row(cache, "n0"))
    fork = cache.fork()
    key = (DRIVER, "n0")
    assert fork.devices.stored.taken_in(key) is cache.devices.stored.taken_in(key)
    assert fork.devices.pools(row(cache, "n0")) is pools


def test_a_fork_has_the_time_at_which_allocations_that_are_late_are_given_up() -> None:
    cache = cluster()
    cache.devices.now_nanoseconds = 7
    assert cache.fork().devices.now_nanoseconds == 7
