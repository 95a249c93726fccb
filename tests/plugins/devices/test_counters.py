"""Counters that the devices of a pool share."""

from __future__ import annotations

from typing import Any

from scheduler.objects.kinds import Kind
from scheduler.plugins.devices.dynamic_resources import DynamicResources
from tests.device_documents import claim, device_class, gpu, resource_slice
from tests.plugins.clusters import refusals
from tests.plugins.devices.test_dynamic_resources import claiming, devices, parsed


def slices_of_pool_p(node: str, driver: str, available: str, taken: str) -> list[dict[str, Any]]:
    """Counters, and a device that takes from them."""
    counters = [{"name": "set", "counters": {"memory": {"value": available}}}]
    consumed = [{"counterSet": "set", "counters": {"memory": {"value": taken}}}]
    documents = [
        resource_slice(node, name=f"{node}-counters", driver=driver, sharedCounters=counters),
        resource_slice(node, gpu("gpu-0", consumesCounters=consumed), driver=driver),
    ]
    for one in documents:
        one["spec"]["pool"] = {"name": "p", "generation": 1, "resourceSliceCount": len(documents)}
    return documents


def test_pools_of_one_name_on_two_nodes_have_counters_of_their_own() -> None:
    any_device = device_class("any", "true")
    small, large = slices_of_pool_p("n0", "a.example.com", "1", "1"), slices_of_pool_p("n1", "b.example.com", "8", "5")
    cache = devices(2, any_device, claim("one", "any"), gpus=0)
    for one in small + large:
        cache.observe_object(Kind.RESOURCE_SLICE, parsed(one))
    assert not refusals(DynamicResources(), claiming("one"), cache.view)
    too_much = slices_of_pool_p("n1", "b.example.com", "4", "5")
    for one in too_much:
        cache.observe_object(Kind.RESOURCE_SLICE, parsed(one))
    assert set(refusals(DynamicResources(), claiming("one"), cache.view)) == {"n1"}
