"""The ids of shares of a device that several claims may take a part of."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.devices.reserved import SetAside
from scheduler.objects.kinds import Kind
from scheduler.plugins.devices.dynamic_resources import DynamicResources
from tests.device_documents import claim, exactly, gpu, resource_slice
from tests.plugins.clusters import refusals
from tests.plugins.devices.test_dynamic_resources import claiming, devices, parsed, placed


def two_gib(name: str, **fields: Any) -> dict[str, Any]:
    request = exactly("gpus", capacity={"requests": {"memory": "2Gi"}})
    return claim(name, requests=[{"name": "r", "exactly": request}]) | fields


def one_device_of_four_gib(*claims: dict[str, Any]) -> ClusterCache:
    cache = devices(1, *claims)
    device = gpu("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi"}})
    cache.observe_object(Kind.RESOURCE_SLICE, parsed(resource_slice("n0", device)))
    return cache


def test_a_device_of_which_a_part_is_free_is_refused_once_both_parts_are_taken() -> None:
    cache = one_device_of_four_gib(*[two_gib(name) for name in "abc"])
    for name in "ab":
        assert not refusals(DynamicResources(), claiming(name, name=name), cache.view)
        placed(cache, claiming(name, name=name), "n0")
    assert refusals(DynamicResources(), claiming("c", name="c"), cache.view)


def share_ids(aside: SetAside) -> dict[str, str]:
    return {one.claim_uid: one.allocation.devices.results[0].share_id or "" for one in aside.claims}


def test_a_claim_that_gets_its_share_in_a_later_attempt_has_an_id_of_its_own() -> None:
    first = placed(one_device_of_four_gib(two_gib("a"), two_gib("b")), claiming("a", "b"), "n0")
    # The write of a's allocation is done, that of b's fails: the pod is tried once more.
    written = {"allocation": msgspec.to_builtins(first.claims[0].allocation)}
    cache = one_device_of_four_gib(two_gib("a", status=written), two_gib("b"), two_gib("c"))
    again = placed(cache, claiming("a", "b"), "n0")
    assert len(set(share_ids(first).values())) == 2
    assert share_ids(again) == {"claim-b": share_ids(first)["claim-b"]}
    assert refusals(DynamicResources(), claiming("c", name="other"), cache.view)
