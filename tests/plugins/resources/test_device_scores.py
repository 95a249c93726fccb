"""Scores of extended resources that devices give (docs/kube-scheduler/dra.md §13)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.config.args import decode_args
from scheduler.objects.kinds import Kind, decode
from scheduler.plugins.resources.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.resources.node_resources_fit import NodeResourcesFit
from scheduler.testing.objects import node
from tests.device_documents import DRIVER, claim, device_class, gpu, resource_slice
from tests.plugins.clusters import info, raw_scores

GPU = "example.com/gpu"
POD = info(requests={"cpu": "1", GPU: "1"})


def show(cache: ClusterCache, kind: Kind, document: dict[str, Any]) -> None:
    cache.observe_object(kind, decode(kind, msgspec.json.encode(document)))


def allocated(device: str) -> dict[str, Any]:
    found = claim("held", "gpus")
    result = {"request": "r", "driver": DRIVER, "pool": "a", "device": device}
    found["status"] = {"allocation": {"devices": {"results": [result]}}}
    return found


@pytest.fixture
def cache() -> ClusterCache:
    """``a`` has four devices of the class and one of another, one held; ``b`` five in an unfinished pool; ``c`` has ten
    of its own and a device; ``d`` has none."""
    made = ClusterCache()
    for name in "abd":
        made.observe_node(node(name))
    made.observe_node(node("c", allocatable={GPU: "10"}))
    show(made, Kind.DEVICE_CLASS, device_class("gpus", f'device.attributes["{DRIVER}"].new', extendedResourceName=GPU))
    for name, count in (("a", 4), ("b", 5), ("c", 1)):
        devices = [gpu(f"gpu-{number}", attributes={"new": True}) for number in range(count)]
        show(made, Kind.RESOURCE_SLICE, resource_slice(name, *devices, gpu("old", attributes={"new": False})))
    unfinished = resource_slice("b", *[gpu(f"gpu-{number}", attributes={"new": True}) for number in range(5)])
    unfinished["spec"]["pool"]["resourceSliceCount"] = 2
    show(made, Kind.RESOURCE_SLICE, unfinished)
    show(made, Kind.RESOURCE_CLAIM, allocated("gpu-0"))
    return made


def fit(**strategy: Any) -> NodeResourcesFit:
    written = {"scoringStrategy": {"resources": [{"name": GPU, "weight": 1}], **strategy}}
    return NodeResourcesFit(decode_args(NodeResourcesFit.Args, written, "args", "NodeResourcesFit")[0])


def test_devices_of_the_class_are_what_a_node_has_of_the_resource(cache: ClusterCache) -> None:
    assert raw_scores(fit(type="LeastAllocated"), POD, cache.view) == {"a": 50, "b": 80, "c": 90, "d": 0}
    assert raw_scores(fit(type="MostAllocated"), POD, cache.view) == {"a": 50, "b": 20, "c": 10, "d": 0}
    shape = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
    ratio = fit(type="RequestedToCapacityRatio", requestedToCapacityRatio=shape)
    assert raw_scores(ratio, POD, cache.view) == {"a": 50, "b": 20, "c": 10, "d": 0}


def test_balanced_allocation_counts_devices_too(cache: ClusterCache) -> None:
    written = {"resources": [{"name": "cpu", "weight": 1}, {"name": GPU, "weight": 1}]}
    plugin = NodeResourcesBalancedAllocation(
        decode_args(NodeResourcesBalancedAllocation.Args, written, "args", "NodeResourcesBalancedAllocation")[0]
    )
    scores = raw_scores(plugin, POD, cache.view)
    assert scores is not None
    assert scores["d"] == 75, "a node with one of the resources alone is no less even"
    assert scores["b"] == 73


def test_a_device_that_is_taken_or_freed_counts_at_once(cache: ClusterCache) -> None:
    plugin = fit(type="LeastAllocated")
    before = plugin.stamp(None, cache.view)
    raw_scores(plugin, POD, cache.view)
    cache.remove_object(Kind.RESOURCE_CLAIM, "default/held")
    assert plugin.stamp(None, cache.view) != before
    scores = raw_scores(plugin, POD, cache.view)
    assert scores is not None
    assert scores["a"] == 75


def test_a_selector_that_fails_on_a_node_leaves_the_resource_out_there(cache: ClusterCache) -> None:
    show(cache, Kind.RESOURCE_SLICE, resource_slice("a", gpu("bare"), name="more"))
    scores = raw_scores(fit(type="LeastAllocated"), POD, cache.view)
    assert scores is not None
    assert scores["a"] == 0
    assert scores["b"] == 80


def test_without_a_class_nothing_but_the_nodes_own_amounts_counts(cache: ClusterCache) -> None:
    cache.remove_object(Kind.DEVICE_CLASS, "gpus")
    assert raw_scores(fit(type="LeastAllocated"), POD, cache.view) == {"a": 0, "b": 0, "c": 90, "d": 0}
