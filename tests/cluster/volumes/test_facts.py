"""What the cluster cache keeps of volumes, notified of every change or left to find out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.volumes.reserved import Provision, Release, Reservation
from scheduler.errors import InvariantViolation
from scheduler.objects.kinds import Kind, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.storage import PersistentVolumeClaim
from scheduler.testing import objects
from scheduler.testing.objects import pod
from tests import builders


def observe(cache: ClusterCache, obj: ApiObject, notified: bool = True) -> None:
    kind = kind_of(obj)
    old = cache.objects.put(kind, obj.key, obj)
    if notified:
        cache.volumes.observe(kind, old, obj)


def drop(cache: ClusterCache, kind: Kind, key: str, notified: bool = True) -> None:
    old = cache.objects.drop(kind, key)
    if notified:
        cache.volumes.observe(kind, old, None)


def attached(cache: ClusterCache, node: str, driver: str = "csi.test") -> tuple[int, int]:
    """Volumes attached and the limit; the columns and the account must say the same."""
    row = cache.table.existing_row(node)
    assert row is not None
    accounts = cache.volumes.attached
    limits = accounts.limits(driver)
    account = accounts.on_row(row)
    if limits is None:
        assert driver not in account.limits
        return 0, -1
    found = int(accounts.counts(driver)[row]), int(limits[row])
    assert found == (account.counts.get(driver, 0), account.limits.get(driver, -1))
    return found


def small_cluster() -> ClusterCache:
    cache = ClusterCache()
    cache.observe_node(testing.node("n"))
    observe(cache, builders.csi_node("n", {"csi.test": 5}))
    observe(cache, builders.claim("c", volume="v"))
    observe(cache, builders.volume("v", csi=("csi.test", "h")))
    cache.observe_pod(PodInfo(pod("user", node="n", claims=["c"])))
    return cache


def test_the_volumes_of_a_nominated_pod_follow_its_claim() -> None:
    cache = small_cluster()
    waiting = PodInfo(objects.pod("waiting", claims=["c"]))
    assert [each.handle for each in cache.volumes.attached.unplaced.of(waiting)] == ["h"]
    observe(cache, builders.volume("other", csi=("csi.test", "h2")))
    observe(cache, builders.claim("c", volume="other"))
    assert [each.handle for each in cache.volumes.attached.unplaced.of(waiting)] == ["h2"]
    drop(cache, Kind.PERSISTENT_VOLUME_CLAIM, "default/c")
    assert cache.volumes.attached.unplaced.of(waiting) == ()


def test_volumes_of_nominated_pods_have_a_new_version_only_when_one_of_them_differs() -> None:
    cache = small_cluster()
    unplaced = cache.volumes.attached.unplaced
    waiting = PodInfo(objects.pod("waiting", claims=["c", "missing"]))
    unplaced.of(waiting)
    before = unplaced.version
    observe(cache, builders.volume("v2", csi=("csi.test", "h2")))
    observe(cache, builders.claim("of-others", volume="v2"))
    observe(cache, builders.volume("v", csi=("csi.test", "h"), labels={"only": "a label"}))
    assert cache.volumes.attached.unplaced.version == before
    observe(cache, builders.claim("missing", volume="v2"))
    assert cache.volumes.attached.unplaced.version != before
    before = unplaced.version
    observe(cache, builders.volume("v", csi=("csi.test", "h3")))
    assert cache.volumes.attached.unplaced.version != before
    assert [each.handle for each in unplaced.of(waiting)] == ["h3", "h2"]


def test_the_volumes_of_a_large_nominated_pod_follow_its_claim() -> None:
    cache = small_cluster()
    large = PodInfo(objects.pod("large", claims=["c"], labels={f"label-{i}": "x" * 60 for i in range(2000)}))
    unplaced = cache.volumes.attached.unplaced
    assert [each.handle for each in unplaced.of(large)] == ["h"]
    before = unplaced.version
    observe(cache, builders.volume("other", csi=("csi.test", "h2")))
    observe(cache, builders.claim("c", volume="other"))
    assert unplaced.version != before
    assert [each.handle for each in unplaced.of(large)] == ["h2"]


def test_large_nominated_pods_are_forgotten_beyond_a_limit_and_their_volumes_follow_their_claims() -> None:
    cache = small_cluster()
    unplaced = cache.volumes.attached.unplaced
    large = [PodInfo(objects.pod(f"large-{i}", claims=["c"], labels={"size": "x" * 2**20})) for i in range(40)]
    unplaced.of(large[0])
    before = unplaced.version
    assert {unplaced.of(each) for each in large} == {unplaced.of(large[0])}
    assert unplaced.version != before
    before = unplaced.version
    observe(cache, builders.claim("of-others", volume="v"))
    assert unplaced.version == before
    observe(cache, builders.claim("c"))
    assert unplaced.version != before
    assert {unplaced.of(each) for each in large} == {()}


def test_a_class_that_changes_is_seen_in_the_volumes_of_nominated_pods() -> None:
    cache = small_cluster()
    waiting = PodInfo(objects.pod("waiting", claims=["later"]))
    observe(cache, builders.claim("later", storage_class="fast"))
    assert cache.volumes.attached.unplaced.of(waiting) == ()
    before = cache.volumes.attached.unplaced.version
    observe(cache, builders.storage_class("fast", provisioner="csi.test"))
    assert cache.volumes.attached.unplaced.version != before
    assert [each.driver for each in cache.volumes.attached.unplaced.of(waiting)] == ["csi.test"]


def test_volumes_of_placed_pods_are_attached() -> None:
    cache = small_cluster()
    assert attached(cache, "n") == (1, 5)
    cache.remove_pod("pod-user")
    assert attached(cache, "n") == (0, 5)


@pytest.mark.parametrize("notified", [True, False])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda cache, notified: observe(cache, builders.claim("c"), notified), (0, 5)),
        (lambda cache, notified: observe(cache, builders.volume("v", csi=("other", "h")), notified), (0, 5)),
        (lambda cache, notified: observe(cache, builders.csi_node("n", {"csi.test": 9}), notified), (1, 9)),
        (lambda cache, notified: observe(cache, builders.attachment("a", "n", "w"), notified), (1, 5)),
        (lambda cache, notified: drop(cache, Kind.PERSISTENT_VOLUME, "v", notified), (0, 5)),
        (lambda cache, notified: drop(cache, Kind.CSI_NODE, "n", notified), (0, -1)),
    ],
)
def test_a_change_of_an_object_counts_at_once(change: Any, expected: tuple[int, int], notified: bool) -> None:
    cache = small_cluster()
    assert attached(cache, "n") == (1, 5)
    change(cache, notified)
    assert attached(cache, "n") == expected
    cache.check()


def test_a_volume_that_becomes_known_later_completes_its_attachment() -> None:
    cache = small_cluster()
    observe(cache, builders.attachment("a", "n", "w"))
    assert attached(cache, "n") == (1, 5)
    observe(cache, builders.volume("w", csi=("csi.test", "w")))
    assert attached(cache, "n") == (2, 5)


def test_a_node_that_takes_over_a_row_has_its_own_limits() -> None:
    cache = small_cluster()
    cache.remove_pod("pod-user")
    assert attached(cache, "n") == (0, 5)
    cache.remove_node("n")
    cache.observe_node(testing.node("m"))
    observe(cache, builders.csi_node("m", {"csi.test": 2}))
    assert attached(cache, "m") == (0, 2)


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        (lambda cache: drop(cache, Kind.CSI_NODE, "n"), (0, -1)),
        (lambda cache: observe(cache, builders.csi_node("n", {"csi.test": 9})), (1, 9)),
        (lambda cache: drop(cache, Kind.VOLUME_ATTACHMENT, "left"), (0, 5)),
    ],
)
def test_a_node_that_comes_back_has_the_account_of_what_is_there_then(
    meanwhile: Any, expected: tuple[int, int]
) -> None:
    cache = small_cluster()
    cache.remove_pod("pod-user")
    observe(cache, builders.attachment("left", "n", "v"))
    assert attached(cache, "n") == (1, 5)
    cache.remove_node("n")
    meanwhile(cache)
    cache.observe_node(testing.node("n"))
    assert attached(cache, "n") == expected
    cache.check()


def test_nodes_that_come_without_a_csi_node_have_no_limit() -> None:
    cache = small_cluster()
    assert attached(cache, "n") == (1, 5)
    for number in range(40):
        cache.observe_node(testing.node(f"later-{number}"))
    limits = cache.volumes.attached.limits("csi.test")
    assert limits is not None
    assert len(limits) == len(cache.volumes.attached.counts("csi.test")) == cache.table.size
    assert set(limits[1:].tolist()) == {-1}


def test_limits_come_with_the_node_when_its_csi_node_came_first() -> None:
    cache = ClusterCache()
    observe(cache, builders.csi_node("late", {"csi.test": 3}))
    assert cache.volumes.attached.limits("csi.test") is None
    cache.observe_node(testing.node("late"))
    assert attached(cache, "late") == (0, 3)


# --- assumptions ------------------------------------------------------------------------------------------------------


def reservation(cache: ClusterCache, uid: str = "pod-user") -> Reservation:
    claim = cache.objects.find(PersistentVolumeClaim, "default/c")
    assert claim is not None
    return Reservation(uid, "n", (), (Provision(claim, is_changed=True),))


def test_what_is_set_aside_goes_with_its_pod() -> None:
    cache = small_cluster()
    cache.apply(reservation(cache))
    assert cache.volumes.reservation("pod-user") is not None
    cache.remove_pod("pod-user")
    assert cache.volumes.reservation("pod-user") is None


def test_something_set_aside_for_a_pod_that_is_nowhere_is_found() -> None:
    cache = small_cluster()
    cache.apply(reservation(cache, "ghost"))
    with pytest.raises(InvariantViolation, match="ghost has volumes set aside but is on no node"):
        cache.check()
    cache.apply(Release("ghost"))
    cache.check()


def test_a_fork_stays_as_it_was() -> None:
    cache = small_cluster()
    fork = cache.fork()
    cache.remove_pod("pod-user")
    cache.remove_object(Kind.PERSISTENT_VOLUME, "v")
    assert (fork.volumes.users("default/c"), cache.volumes.users("default/c")) == (1, 0)
    assert fork.volumes.volume("v") is not None and cache.volumes.volume("v") is None
    assert int(fork.volumes.attached.counts("csi.test")[0]) == 1
    assert fork.volumes.is_of(fork.table) and not fork.volumes.is_of(cache.table)


def test_a_version_of_a_pod_with_other_volumes_is_counted_by_its_own() -> None:
    cache = small_cluster()
    cache.observe_pod(PodInfo(pod("plain", node="n")))
    cache.observe_pod(PodInfo(pod("plain", node="n", claims=["c"])))
    assert cache.volumes.users("default/c") == 2
    cache.check()
    cache.remove_pod("pod-plain")
    assert cache.volumes.users("default/c") == 1


def test_a_pod_whose_node_is_gone_uses_no_claim() -> None:
    cache = small_cluster()
    node = cache.table.nodes[0]
    assert node is not None
    assert cache.volumes.users("default/c") == 1
    cache.remove_node(node.metadata.name)
    assert cache.volumes.users("default/c") == 0
    cache.check()
    cache.observe_node(node)
    assert cache.volumes.users("default/c") == 1


# --- any history ------------------------------------------------------------------------------------------------------

_names = st.sampled_from(("a", "b"))


def _pod(name: str, node: str, claim: str) -> Pod:
    disk = {"name": "d", "awsElasticBlockStore": {"volumeID": claim}}
    return pod(name, node=node, claims=[claim], volumes=[disk])


_objects = st.one_of(
    st.builds(lambda name, volume: builders.claim(name, volume=volume), _names, st.none() | _names),
    st.builds(lambda name, handle: builders.volume(name, csi=("csi.test", handle)), _names, _names),
    st.builds(lambda name, count: builders.csi_node(name, {"csi.test": count}), _names, st.none() | st.integers(0, 3)),
    st.builds(builders.attachment, _names, _names, st.none() | _names),
    st.builds(lambda name: builders.storage_class(name), _names),
)
_steps = st.one_of(
    st.tuples(st.just("object"), _objects, st.booleans()),
    st.tuples(
        st.just("drop"),
        st.sampled_from((Kind.PERSISTENT_VOLUME_CLAIM, Kind.PERSISTENT_VOLUME, Kind.CSI_NODE, Kind.VOLUME_ATTACHMENT)),
        _names,
    ),
    st.tuples(st.just("node"), _names, st.booleans()),
    st.tuples(st.just("pod"), st.builds(_pod, _names, _names, _names), st.booleans()),
    st.tuples(st.just("ask"), st.none(), st.none()),
)


@given(st.lists(_steps, max_size=25))
@settings(max_examples=150)
def test_whatever_happens_a_recount_gives_the_same(steps: list[tuple[str, Any, Any]]) -> None:
    cache = ClusterCache()
    for step, what, extra in steps:
        match step:
            case "object":
                observe(cache, what, notified=extra)
            case "drop":
                drop(cache, what, f"default/{extra}" if what is Kind.PERSISTENT_VOLUME_CLAIM else extra)
            case "node" if extra:
                cache.observe_node(testing.node(what))
            case "node":
                cache.remove_node(what)
            case "pod" if extra:
                cache.observe_pod(PodInfo(what))
            case "pod":
                cache.remove_pod(what.metadata.uid)
            case _:
                cache.check()
    cache.check()


def test_an_account_of_a_fork_is_never_taken_for_another_one_of_the_original() -> None:
    cache = small_cluster()
    first = int(cache.volumes.attached.versions[0])
    fork = cache.fork()
    assert int(fork.volumes.attached.versions[0]) == first
    fork.remove_pod("pod-user")
    assert int(fork.volumes.attached.versions[0]) != first
    assert int(cache.volumes.attached.versions[0]) == first
    cache.remove_pod("pod-user")
    versions = {first, int(fork.volumes.attached.versions[0]), int(cache.volumes.attached.versions[0])}
    assert len(versions) == 3


def test_a_fork_counts_what_its_parent_has_not_counted_yet() -> None:
    cache = small_cluster()
    assert attached(cache, "n") == (1, 5)
    cache.remove_pod("pod-user")
    assert attached(cache.fork(), "n") == (0, 5)
    assert attached(cache, "n") == (0, 5)
