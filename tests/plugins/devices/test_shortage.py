"""Nodes that have too few devices for a request."""

from __future__ import annotations

from scheduler.plugins.devices.dynamic_resources import DynamicResources
from tests.device_documents import claim, exactly
from tests.plugins.clusters import refusals
from tests.plugins.devices.test_dynamic_resources import claiming, devices, placed


def test_nodes_that_lack_the_devices_asked_for_are_refused_alike_whatever_is_held_of_the_others() -> None:
    rare = exactly("gpus", 'device.attributes["gpu.example.com"].place > 7')
    cache = devices(
        20,
        claim("rare", requests=[{"name": "r", "exactly": rare}]),
        *[claim(f"c{number}", "gpus") for number in range(10)],
    )
    for number in range(10):
        placed(cache, claiming(f"c{number}", name=f"p{number}"), f"n{number % 5}")
    assert len(refusals(DynamicResources(), claiming("rare"), cache.view)) == 20
    kept = [(len(answers.of_signature), len(answers.of_bare)) for answers in cache.devices.answers]
    assert kept == [(2, 1)], "nodes with all of their devices and with none, with one answer for both"
