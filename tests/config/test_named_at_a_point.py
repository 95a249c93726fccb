"""Plugins that a profile names at points where kube-scheduler's plugin takes no part."""

from __future__ import annotations

import pytest

from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.errors import ConfigurationError

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def build(point: str, plugin: str) -> None:
    build_profiles(load(HEADER + f"profiles: [{{plugins: {{{point}: {{enabled: [{{name: {plugin}}}]}}}}}}]"))


@pytest.mark.parametrize(
    ("point", "plugin", "fault"),
    [
        ("preScore", "DynamicResources", 'plugin "DynamicResources" does not extend PreScorePlugin plugin'),
        ("placementGenerate", "Nope", 'PlacementGeneratePlugin "Nope" does not exist'),
        ("placementScore", "NodeName", 'plugin "NodeName" does not extend PlacementScorePlugin plugin'),
    ],
)
def test_a_plugin_named_where_it_takes_no_part_is_refused_as_by_kube_scheduler(
    point: str, plugin: str, fault: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build(point, plugin)
    assert [(one.path, one.message) for one in caught.value.faults] == [("profiles[0]", fault)]


@pytest.mark.parametrize(
    ("point", "plugin"),
    [
        ("placementGenerate", "TopologyPlacementGenerator"),
        ("placementScore", "PodGroupPodsCount"),
        ("placementScore", "NodeResourcesFit"),
        ("score", "DynamicResources"),
    ],
)
def test_plugins_of_placements_may_be_named_with_their_gate_off(point: str, plugin: str) -> None:
    build(point, plugin)
