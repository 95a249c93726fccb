"""A search that takes too long ends its attempt: it is not repeated on every other node."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.cluster.cache import ClusterCache
from scheduler.config.durations import MILLISECOND, Duration
from scheduler.messages.status import Code
from scheduler.objects.kinds import Kind
from scheduler.plugins.devices.dynamic_resources import DynamicResources, DynamicResourcesArgs
from tests.device_documents import claim, exactly, gpu, resource_slice
from tests.plugins.clusters import refusals
from tests.plugins.devices.test_dynamic_resources import claiming, devices, parsed

TEXT = "timed out trying to allocate devices"


def slice_of(name: str, count: int = 8) -> dict[str, Any]:
    """Devices unlike those of any other node."""
    return resource_slice(name, *[gpu(f"gpu-{place}", attributes={"of": name}) for place in range(count)])


def hard(nodes: int) -> ClusterCache:
    """A claim for nine devices on nodes with eight that look different on each: no solution, and a long search."""
    requests = [{"name": f"r{place}", "exactly": exactly("gpus")} for place in range(9)]
    cache = devices(nodes, *[claim(name, requests=requests) for name in ("one", "two")])
    for number in range(nodes):
        cache.observe_object(Kind.RESOURCE_SLICE, parsed(slice_of(f"n{number}")))
    return cache


def plugin() -> DynamicResources:
    return DynamicResources(DynamicResourcesArgs(filter_timeout=Duration(50 * MILLISECOND)))


def searched(cache: ClusterCache) -> list[str]:
    """The nodes on which the search ran out of time."""
    (answers,) = cache.devices.answers
    late = [number for number, one in enumerate(answers.outcomes) if one.is_out_of_time and one.is_recorded]
    return [cache.table.names[row] for row in np.flatnonzero(np.isin(answers.codes, late)).tolist()]


def test_one_node_is_searched_and_the_attempt_is_an_error_that_names_it() -> None:
    for count in (3, 40):
        cache = hard(count)
        found = refusals(plugin(), claiming("one"), cache.view)
        (name,) = searched(cache)
        assert {refusal.code for refusal in found.values()} == {Code.ERROR}
        assert len(found) == count
        assert {refusal.reasons for refusal in found.values()} == {(f"node {name}: {TEXT}",)}


def test_the_next_pod_of_the_kind_is_not_searched_for_until_that_node_has_other_devices() -> None:
    cache = hard(3)
    refusals(plugin(), claiming("one"), cache.view)
    assert searched(cache) == ["n0"]
    assert len(refusals(plugin(), claiming("two"), cache.view)) == 3
    assert searched(cache) == ["n0"]
    cache.observe_object(Kind.RESOURCE_SLICE, parsed(slice_of("n0", count=9)))
    assert refusals(plugin(), claiming("two"), cache.view).keys() == {"n1", "n2"}
    assert searched(cache) == ["n1"]


def test_nor_are_nodes_as_preemption_tries_them() -> None:
    cache = hard(3)
    tried = cache.view.take([0, 1, 2])
    found = refusals(plugin(), claiming("one"), tried)
    assert {refusal.reasons for refusal in found.values()} == {(f"node {tried.table.names[0]}: {TEXT}",)}
    refusals(plugin(), claiming("two"), tried)
    refusals(plugin(), claiming("two"), cache.view)
    (answers,) = cache.devices.answers
    assert len(answers.late) == 1
