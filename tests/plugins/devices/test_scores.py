"""What nodes score for the alternatives of a request that a pod's claims get there."""

from __future__ import annotations

from typing import Any

from scheduler.plugins.devices.dynamic_resources import DynamicResources
from tests.device_documents import DRIVER, claim, exactly
from tests.plugins.clusters import raw_scores
from tests.plugins.devices.test_dynamic_resources import claiming, devices


def ranked(name: str, *classes: str) -> dict[str, Any]:
    alternatives = [{"name": f"a{place}", **exactly(one)} for place, one in enumerate(classes)]
    return claim(name, requests=[{"name": "r", "firstAvailable": alternatives}])


def test_an_alternative_that_a_claim_has_got_already_counts_on_each_node_where_the_others_find_theirs() -> None:
    """Eight points for the first alternative of a request, one fewer for each later one."""
    had = ranked("had", "gpus", "gpus", "gpus")
    result = {"request": "r/a2", "driver": DRIVER, "pool": "elsewhere", "device": "gpu-0"}
    had["status"] = {"allocation": {"devices": {"results": [result]}}}
    cache = devices(2, had, ranked("asked", "gpus", "gpus"))
    assert raw_scores(DynamicResources(), claiming("asked"), cache.view) == {"n0": 8, "n1": 8}
    assert raw_scores(DynamicResources(), claiming("asked", "had"), cache.view) == {"n0": 8 + 6, "n1": 8 + 6}
