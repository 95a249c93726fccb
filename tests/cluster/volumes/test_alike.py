"""Which pods with claims of their own are alike."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.kinds import kind_of
from scheduler.objects.meta import ApiObject
from scheduler.testing.objects import node, pod
from tests import builders


def show(cache: ClusterCache, *objects: ApiObject) -> None:
    for obj in objects:
        cache.observe_object(kind_of(obj), obj)


def cluster() -> ClusterCache:
    """A node that can have ten volumes of a driver."""
    cache = ClusterCache()
    cache.observe_node(node("n"))
    show(cache, builders.csi_node("n", {"csi.test": 10}))
    return cache


def member(
    cache: ClusterCache,
    name: str,
    of_claim: dict[str, Any] | None = None,
    of_volume: dict[str, Any] | None = None,
    **fields: Any,
) -> PodInfo:
    """A pod with a bound claim of its own. ``of_claim``, ``of_volume``: what is said of them besides."""
    owner = {"namespace": "default", "name": name}
    settings = {"csi": ("csi.test", f"handle-{name}"), "claimed_by": owner, **(of_volume or {})}
    show(cache, builders.volume(f"pv-{name}", **settings))
    show(cache, builders.claim(name, **{"volume": f"pv-{name}", **(of_claim or {})}))
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return PodInfo(pod(name, volumes=[mounted], **{"labels": {"app": "db"}, **fields}))


def test_pods_are_alike_whose_claims_differ_in_identity_alone() -> None:
    cache = cluster()
    key = cache.likeness_key(member(cache, "db-0"))
    assert key is not None
    assert key == cache.likeness_key(member(cache, "db-1"))


@pytest.mark.parametrize(
    ("of_claim", "of_volume"),
    [
        ({"size": "2Gi"}, {}),
        ({"modes": ("ReadWriteOncePod",)}, {}),
        ({"storage_class": "fast"}, {}),
        ({"deleted": "2026-01-01T00:00:00Z"}, {}),
        ({}, {"csi": ("other.test", "handle-db-1")}),
        ({}, {"labels": {"topology.kubernetes.io/zone": "z"}}),
        ({}, {"node_affinity": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}),
        ({}, {"claimed_by": {"namespace": "default", "name": "another"}}),
    ],
)
def test_what_claims_and_volumes_say_makes_a_difference(of_claim: dict[str, Any], of_volume: dict[str, Any]) -> None:
    cache = cluster()
    other = member(cache, "db-1", of_claim, of_volume)
    assert cache.likeness_key(member(cache, "db-0")) != cache.likeness_key(other)


def test_a_claim_or_volume_that_has_changed_is_looked_at_again() -> None:
    cache = cluster()
    waiting = member(cache, "db-0")
    first = cache.likeness_key(waiting)
    show(cache, builders.claim("db-0", volume="pv-db-0", size="2Gi"))
    second = cache.likeness_key(waiting)
    owner = {"namespace": "default", "name": "db-0"}
    labels = {"topology.kubernetes.io/zone": "z"}
    show(cache, builders.volume("pv-db-0", csi=("csi.test", "handle-db-0"), claimed_by=owner, labels=labels))
    assert len({first, second, cache.likeness_key(waiting)}) == 3


@pytest.mark.parametrize(("size", "kept"), [(10, 1), (10_000, 0)])
def test_a_large_claim_is_not_kept_for_what_was_made_of_it(size: int, kept: int) -> None:
    """A tenant could leave two thousand deleted claims of a megabyte behind."""
    cache = cluster()
    waiting = member(cache, "db-0")
    claim = builders.claim("db-0", volume="pv-db-0", annotations={"note": "x" * size})
    show(cache, claim)
    before = sys.getrefcount(claim)
    assert cache.likeness_key(waiting) is not None
    assert sys.getrefcount(claim) - before == kept


def test_the_rest_of_the_pod_makes_a_difference() -> None:
    cache = cluster()
    others = [member(cache, "db-1", cpu="2"), member(cache, "db-2", labels={"app": "web"})]
    assert cache.likeness_key(member(cache, "db-0")) not in [cache.likeness_key(other) for other in others]


def test_a_pod_is_like_no_other_whose_claim_is_not_bound() -> None:
    cache = cluster()
    assert cache.likeness_key(member(cache, "db-0", {"bound": False})) is None
    assert cache.likeness_key(member(cache, "db-1", {"volume": "missing"})) is None
    assert cache.likeness_key(PodInfo(pod("db-2", claims=["missing"]))) is None


def test_a_pod_is_like_no_other_whose_claim_is_in_use_on_a_node() -> None:
    cache = cluster()
    waiting = member(cache, "db-0")
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "db-0"}}
    cache.observe_pod(PodInfo(pod("user", node="n", volumes=[mounted])))
    assert cache.likeness_key(waiting) is None


def test_a_pod_is_like_no_other_whose_volume_is_in_use_by_another_claim() -> None:
    """Two PersistentVolumes may be one volume of the driver's."""
    cache = cluster()
    user = member(cache, "user", node="n")
    cache.observe_pod(user)
    assert cache.likeness_key(member(cache, "db-0", of_volume={"csi": ("csi.test", "handle-user")})) is None


def test_a_pod_is_like_no_other_whose_volume_is_still_attached() -> None:
    cache = cluster()
    waiting = member(cache, "db-0")
    show(cache, builders.attachment("a", "n", "pv-db-0"))
    assert cache.likeness_key(waiting) is None


@pytest.mark.parametrize("claims", [("db-0", "db-0"), ("db-0", "db-1")])
def test_a_pod_is_like_no_other_that_names_a_volume_twice(claims: tuple[str, str]) -> None:
    """It needs one place on a node, where a pod with two volumes needs two."""
    cache = cluster()
    one_volume = {"csi": ("csi.test", "handle")}
    for name in ("db-0", "db-1"):
        member(cache, name, of_volume=one_volume)
    for name in ("db-2", "db-3"):
        member(cache, name)
    assert cache.likeness_key(PodInfo(pod("two", claims=["db-2", "db-3"]))) is not None
    assert cache.likeness_key(PodInfo(pod("one", claims=list(claims)))) is None


def test_a_large_pod_is_like_no_other() -> None:
    """Its key would be as large, and is kept while the pod waits."""
    cache = cluster()
    assert cache.likeness_key(member(cache, "db-0", annotations={"note": "x" * 100_000})) is None


def test_pods_without_claims_are_alike_by_their_template() -> None:
    cache = cluster()
    assert cache.likeness_key(PodInfo(pod("a"))) == cache.likeness_key(PodInfo(pod("b")))
    assert cache.likeness_key(PodInfo(pod("a"))) != cache.likeness_key(PodInfo(pod("c", cpu="2")))
