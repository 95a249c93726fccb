from __future__ import annotations

import msgspec

from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind, decode_as, encode
from scheduler.objects.resource_claims import ResourceClaim
from tests.device_documents import claim, device_class, exactly, gpu, resource_slice


def test_a_slice_says_which_devices_are_where() -> None:
    document = resource_slice(
        "n0",
        gpu(
            "gpu-0",
            attributes={"numa": 1, "healthy": True, "model": "a100"},
            capacity={"memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi"]}}},
            taints=[{"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
            consumesCounters=[{"counterSet": "chip", "counters": {"memory": {"value": "40Gi"}}}],
            bindsToNode=True,
        ),
        sharedCounters=[{"name": "chip", "counters": {"memory": {"value": "80Gi"}}}],
    )
    found = decode_as(ResourceSlice, msgspec.json.encode(document))
    (device,) = found.spec.devices
    assert (found.spec.node_name, found.spec.pool.name, found.spec.pool.resource_slice_count) == ("n0", "n0", 1)
    assert device.attributes["numa"].int_ == 1
    assert device.attributes["healthy"].bool_ is True
    assert device.attributes["model"].string == "a100"
    assert device.capacity["memory"].request_policy is not None
    assert device.taints[0].key == "k"
    assert device.consumes_counters[0].counters["memory"].value == "40Gi"
    assert device.binds_to_node


def test_a_claim_and_its_allocation_survive_decoding_and_encoding() -> None:
    document = claim(
        "c",
        requests=[{"name": "r", "firstAvailable": [{"name": "s", **exactly("gpus", "true", count=2)}]}],
        constraints=[{"requests": ["r"], "matchAttribute": "x.y/z"}],
        config=[{"requests": ["r"], "opaque": {"driver": "d", "parameters": {"kind": "K", "deep": {"a": [1, None]}}}}],
    )
    document["status"] = {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "r/s",
                        "driver": "d",
                        "pool": "p",
                        "device": "x",
                        "shareID": "u",
                        "consumedCapacity": {"memory": "1Gi"},
                    }
                ]
            }
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    }
    found = decode_as(ResourceClaim, msgspec.json.encode(document))
    assert found.is_reserved_for("u")
    assert found.allocation is not None
    assert found.allocation.devices.results[0].share_id == "u"
    assert msgspec.json.decode(encode(found)) == document


def test_a_class_stands_for_an_extended_resource_by_its_own_name_too() -> None:
    document = device_class("gpus", "true", extendedResourceName="example.com/gpu")
    found = decode_as(DeviceClass, msgspec.json.encode(document))
    assert found.spec.extended_resource_name == "example.com/gpu"
    assert found.implicit_resource_name == "deviceclass.resource.kubernetes.io/gpus"


def test_the_kinds_of_devices_are_optional() -> None:
    assert all(kind.entry.is_optional for kind in (Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE, Kind.RESOURCE_CLAIM))
