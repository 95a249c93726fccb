"""How long an assumption about an object lasts."""

from __future__ import annotations

import pytest

from scheduler.cluster.assumed import AssumedObjects, OutOfSync
from scheduler.cluster.object_store import ObjectStore
from scheduler.objects.kinds import Kind
from scheduler.objects.storage import PersistentVolume
from tests import builders


@pytest.fixture
def objects() -> ObjectStore:
    store = ObjectStore()
    store.put(Kind.PERSISTENT_VOLUME, "v", volume("1"))
    return store


@pytest.fixture
def assumed(objects: ObjectStore) -> AssumedObjects[PersistentVolume]:
    return AssumedObjects(Kind.PERSISTENT_VOLUME, objects)


def volume(version: str, size: str = "1Gi") -> PersistentVolume:
    return builders.volume("v", size=size, resource_version=version)


def test_an_assumption_lies_over_the_version_it_was_made_from(assumed: AssumedObjects[PersistentVolume]) -> None:
    assumed.assume(volume("1", "7Gi"))
    assert assumed.get("v") == volume("1", "7Gi")


def test_the_last_assumption_counts(assumed: AssumedObjects[PersistentVolume]) -> None:
    assumed.assume(volume("1", "7Gi"))
    assumed.assume(volume("1", "8Gi"))
    assert assumed.get("v") == volume("1", "8Gi")


def test_any_other_version_from_the_server_ends_it(
    objects: ObjectStore, assumed: AssumedObjects[PersistentVolume]
) -> None:
    assumed.assume(volume("1", "7Gi"))
    objects.put(Kind.PERSISTENT_VOLUME, "v", volume("2"))
    assert assumed.get("v") == volume("2")


def test_the_same_version_again_does_not_end_it(
    objects: ObjectStore, assumed: AssumedObjects[PersistentVolume]
) -> None:
    assumed.assume(volume("1", "7Gi"))
    objects.put(Kind.PERSISTENT_VOLUME, "v", volume("1"))
    assumed.settle("v")
    assert assumed.get("v") == volume("1", "7Gi")


def test_a_settled_assumption_does_not_come_back(
    objects: ObjectStore, assumed: AssumedObjects[PersistentVolume]
) -> None:
    assumed.assume(volume("1", "7Gi"))
    objects.put(Kind.PERSISTENT_VOLUME, "v", volume("2"))
    assumed.settle("v")
    objects.put(Kind.PERSISTENT_VOLUME, "v", volume("1"))
    assert assumed.get("v") == volume("1")


def test_nothing_is_assumed_of_an_object_that_is_gone(
    objects: ObjectStore, assumed: AssumedObjects[PersistentVolume]
) -> None:
    assumed.assume(volume("1", "7Gi"))
    objects.drop(Kind.PERSISTENT_VOLUME, "v")
    assert assumed.get("v") is None
    with pytest.raises(OutOfSync, match='could not find "v"'):
        assumed.assume(volume("1"))


def test_an_assumption_from_another_version_is_refused(assumed: AssumedObjects[PersistentVolume]) -> None:
    with pytest.raises(OutOfSync, match=r'"v" is out of sync \(stored: 1, assume: 9\)'):
        assumed.assume(volume("9"))


def test_restoring_another_version_changes_nothing(assumed: AssumedObjects[PersistentVolume]) -> None:
    assumed.assume(volume("1", "7Gi"))
    assumed.restore(volume("9"))
    assert assumed.get("v") == volume("1", "7Gi")
    assumed.restore(volume("1"))
    assert assumed.get("v") == volume("1")


def test_a_fork_and_its_parent_go_their_own_ways(
    objects: ObjectStore, assumed: AssumedObjects[PersistentVolume]
) -> None:
    assumed.assume(volume("1", "7Gi"))
    fork = assumed.fork(objects)
    assumed.restore(volume("1"))
    assert fork.get("v") == volume("1", "7Gi")
    fork.restore(volume("1"))
    assumed.assume(volume("1", "9Gi"))
    assert fork.get("v") == volume("1")
