"""A pod with many claims: each looks at what the earlier ones have left, not at what they got."""

from __future__ import annotations

import pytest

from scheduler import testing
from scheduler.framework.plugin import State
from scheduler.objects.meta import ApiObject
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding
from scheduler.testing.fragments import node_term
from tests import builders
from tests.plugins.clusters import cluster, info
from tests.plugins.test_rows_touched import counted

PLUGIN = VolumeBinding()
VOLUMES = 90
NODES = [testing.node(f"n{number}", labels={"zone": "ab"[number % 2]}) for number in range(4)]


def lines(claims: int, provisioner: str, volumes: int = VOLUMES) -> int:
    """Lines of Python that filtering all nodes runs, and reserving one of them."""
    names = [f"c{number:03}" for number in range(claims)]
    objects: list[ApiObject] = [builders.storage_class("s", provisioner)]
    objects += [builders.claim(name, size="1Gi", storage_class="s") for name in names]
    objects += [
        builders.volume(f"v{number:03}", size="1Gi", storage_class="s", node_affinity=[node_term("zone In a")])
        for number in range(volumes)
    ]
    view = cluster(NODES, objects=objects)
    pod = info(claims=names)
    state = PLUGIN.pre_filter(pod, view)
    assert isinstance(state, State)
    with counted() as found:
        PLUGIN.filter(state, pod, view, view.rows)
        PLUGIN.reserve(state, pod.on_node("n0"), view, "n0")
    return found.count


@pytest.mark.parametrize("provisioner", ["kubernetes.io/no-provisioner", "csi.test"])
@pytest.mark.parametrize("volumes", [0, VOLUMES])
def test_the_cost_of_claims_grows_with_their_number_and_not_with_its_square(provisioner: str, volumes: int) -> None:
    few, some, many = (lines(claims, provisioner, volumes) for claims in (20, 40, 80))
    assert many - some < 2.5 * (some - few)
