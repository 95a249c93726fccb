"""Which class stands for an extended resource while classes come, change and go."""

from __future__ import annotations

import msgspec

from scheduler.cluster.devices.extended_resources import ClassesByResource
from scheduler.objects.devices import DeviceClass
from scheduler.objects.kinds import decode_as
from tests.device_documents import device_class

GPU = "example.com/gpu"


def made(name: str, created: str, resource: str | None = GPU) -> DeviceClass:
    document = device_class(name, **({} if resource is None else {"extendedResourceName": resource}))
    document["metadata"]["creationTimestamp"] = created
    return decode_as(DeviceClass, msgspec.json.encode(document))


OLD = made("old", "2026-01-01T00:00:00Z")
NEW = made("new", "2026-02-01T00:00:00Z")


def successive() -> ClassesByResource:
    """A class and its successor."""
    classes = ClassesByResource()
    classes.observe(None, OLD)
    classes.observe(None, NEW)
    return classes


def test_of_two_classes_for_one_resource_the_newer_one_stands_for_it() -> None:
    assert successive().get(GPU) == "new"


def test_a_class_keeps_its_resource_when_the_one_that_lost_it_is_deleted() -> None:
    classes = successive()
    classes.observe(OLD, None)
    assert classes.get(GPU) == "new"
    assert classes.get(OLD.implicit_resource_name) is None


def test_a_class_keeps_its_resource_when_the_one_that_lost_it_stands_for_another_or_for_none() -> None:
    for resource in ("example.com/old-gpu", None):
        classes = successive()
        classes.observe(OLD, made("old", "2026-01-01T00:00:00Z", resource))
        assert classes.get(GPU) == "new"
        assert resource is None or classes.get(resource) == "old"


def test_a_class_gives_its_resource_up_for_one_that_a_newer_class_has() -> None:
    classes = ClassesByResource()
    before = made("old", "2026-01-01T00:00:00Z", "example.com/old-gpu")
    classes.observe(None, before)
    classes.observe(None, NEW)
    classes.observe(before, OLD)
    assert classes.get("example.com/old-gpu") is None
    assert classes.get(GPU) == "new"
