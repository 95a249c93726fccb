"""Why a node's devices do not do for a pod's requests together, each of which could be met alone."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.objects.kinds import Kind
from scheduler.plugins.devices.dynamic_resources import DynamicResources
from tests.device_documents import DRIVER, claim, device_class, exactly, gpu, resource_slice
from tests.plugins.devices.test_counters import slices_of_pool_p
from tests.plugins.devices.test_dynamic_resources import claiming, devices, parsed

SAME_PLACE = {"matchAttribute": f"{DRIVER}/place"}


def last_line(gpus: int, *requests: dict[str, Any], constraints: list[dict[str, Any]]) -> str:
    """Of what is said about one node with GPUs, each in a place of its own."""
    asked = [{"name": f"r{number}", "exactly": one} for number, one in enumerate(requests)]
    cache = devices(1, claim("all", requests=asked, constraints=constraints), gpus=gpus)
    (finding,) = DynamicResources().findings(claiming("all"), cache.view)
    return finding.lines[-1]


@pytest.mark.parametrize("constraints", [[], [{**SAME_PLACE, "requests": ["r0"]}]])
def test_too_few_devices_for_all_requests_are_named_also_beside_a_constraint(constraints: list[dict[str, Any]]) -> None:
    said = last_line(2, exactly("gpus"), exactly("gpus", count=2), constraints=constraints)
    assert said == "there are too few devices for all requests together"


def test_a_constraint_is_named_where_the_devices_would_do_without_it() -> None:
    said = last_line(3, exactly("gpus"), exactly("gpus", count=2), constraints=[SAME_PLACE])
    assert said == f"no choice of devices keeps to matchAttribute {DRIVER}/place"


def test_counters_are_named_where_they_do_not_suffice_for_all_requests() -> None:
    counters, of_one = slices_of_pool_p("n0", DRIVER, available="5", taken="3")
    takes = of_one["spec"]["devices"][0]["consumesCounters"]
    two = resource_slice("n0", *[gpu(name, consumesCounters=takes) for name in ("gpu-0", "gpu-1")])
    two["spec"]["pool"] = of_one["spec"]["pool"]
    requests = [{"name": name, "exactly": exactly("any")} for name in ("r0", "r1")]
    cache = devices(1, device_class("any", "true"), claim("both", requests=requests), gpus=0)
    for one in (counters, two):
        cache.observe_object(Kind.RESOURCE_SLICE, parsed(one))
    (finding,) = DynamicResources().findings(claiming("both"), cache.view)
    assert finding.lines[-1] == "the counters that the devices share do not suffice for all requests together"
