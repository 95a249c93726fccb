from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.simulate.apiserver import DeleteOptions, Failure, Registry, Store
from scheduler.simulate.apiserver.kinds import CONFIG_MAPS, NAMESPACES, PODS, PRIORITY_CLASSES
from scheduler.simulate.apiserver.patches import STRATEGIC_PATCH
from scheduler.simulate.apiserver.pods import bind
from scheduler.testing.documents import pod_json
from tests.simulate.playing import add_pod

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def registry() -> Registry:
    return Registry(Store(), clock=lambda: MOMENT)


def _bind(registry: Registry, name: str, **metadata: Any) -> None:
    bind(registry, "default", name, {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": "n"}})


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"requests": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_the_class_of_service_follows_requests_and_limits(
    registry: Registry, resources: dict[str, Any], expected: str
) -> None:
    body = pod_json("p", containers=[{"name": "c", "image": "i", "resources": resources}])
    assert registry.create(PODS, "default", body).object["status"]["qosClass"] == expected


def test_the_lowest_global_default_class_is_given_to_pods_without_one(registry: Registry) -> None:
    for name, value in (("b", 20), ("a", 10)):
        registry.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value, "globalDefault": True})
    spec = add_pod(registry, "p")["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (10, "a")


def test_a_binding_leaves_what_it_does_not_concern_as_it_was(registry: Registry) -> None:
    before = add_pod(registry, "p")
    _bind(registry, "p", uid=before["metadata"]["uid"])
    after = registry.stored(PODS, "default", "p").object
    assert after["spec"] == {**before["spec"], "nodeName": "n"}
    assert "nodeName" not in before["spec"]
    assert after["spec"]["containers"] is before["spec"]["containers"]


def test_the_grace_period_ends_where_the_first_request_put_it_unless_a_later_one_is_shorter(registry: Registry) -> None:
    add_pod(registry, "p")
    _bind(registry, "p")
    for grace, ends in ((None, "2026-01-02T03:04:35Z"), (60, "2026-01-02T03:04:35Z"), (5, "2026-01-02T03:04:10Z")):
        stored, gone = registry.delete(PODS, "default", "p", DeleteOptions(grace_seconds=grace))
        assert not gone
        assert stored.object["metadata"]["deletionTimestamp"] == ends
    assert stored.object["metadata"]["generation"] == 2


def test_a_failed_precondition_deletes_nothing(registry: Registry) -> None:
    add_pod(registry, "p")
    with pytest.raises(Failure, match="UID in the precondition"):
        registry.delete(PODS, "default", "p", DeleteOptions(uid="other"))
    assert registry.store.get(PODS, "default", "p") is not None


def test_a_pod_with_finalizers_stays_after_its_kubelet_is_done_with_it(registry: Registry) -> None:
    registry.create(PODS, "default", pod_json("p", metadata={"finalizers": ["a.b/c"]}))
    _bind(registry, "p")
    _, gone = registry.delete(PODS, "default", "p", DeleteOptions(grace_seconds=0))
    assert not gone
    patch = {"metadata": {"finalizers": None}}
    registry.patch(PODS, "default", "p", STRATEGIC_PATCH, patch)
    assert registry.store.get(PODS, "default", "p") is None


def test_a_write_that_changes_nothing_takes_no_revision(registry: Registry) -> None:
    registry.create(CONFIG_MAPS, "default", {"metadata": {"name": "c"}, "data": {"a": "1"}})
    before = registry.store.revision
    registry.update(CONFIG_MAPS, "default", "c", {"metadata": {"name": "c"}, "data": {"a": "1"}})
    assert registry.store.revision == before


def test_a_namespace_that_is_being_deleted_takes_nothing_new(registry: Registry) -> None:
    registry.create(NAMESPACES, "", {"metadata": {"name": "x"}})
    registry.delete(NAMESPACES, "", "x")
    with pytest.raises(Failure, match="because it is being terminated"):
        registry.create(CONFIG_MAPS, "x", {"metadata": {"name": "c"}})
