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
        ("multiPoint", "Nope", 'PreFilterPlugin "Nope" does not exist'),
        ("permit", "PodGroupPodsCount", 'plugin "PodGroupPodsCount" does not extend PermitPlugin plugin'),
        ("preFilter", "GangScheduling", 'plugin "GangScheduling" does not extend PreFilterPlugin plugin'),
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
        ("multiPoint", "TopologyPlacementGenerator"),
        ("multiPoint", "PodGroupPodsCount"),
        ("multiPoint", "GangScheduling"),
        ("permit", "GangScheduling"),
        ("score", "DynamicResources"),
    ],
)
def test_plugins_may_be_named_with_their_gate_off_as_in_kube_scheduler(point: str, plugin: str) -> None:
    build(point, plugin)


def test_placements_that_nothing_comes_of_are_said_in_warnings() -> None:
    named = "TopologyPlacementGenerator", "GangScheduling"
    profile = ", ".join(f"{{name: {name}}}" for name in named)
    loaded = load(HEADER + f"profiles: [{{schedulerName: a, plugins: {{multiPoint: {{enabled: [{profile}]}}}}}}]")
    # The default plugins come first.
    assert [warning.partition("]: ")[2] for warning in loaded.warnings] == [
        "TopologyPlacementGenerator is ignored: the feature gate TopologyAwareWorkloadScheduling is alpha and off",
        "GangScheduling is ignored: the feature gate GenericWorkload is alpha and off",
    ]
    (made,) = build_profiles(loaded).values()
    assert made.placement_generator is None


def test_no_plugin_from_outside_has_the_name_of_one_whose_gate_is_off() -> None:
    own = "apiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
    with pytest.raises(ConfigurationError, match="GangScheduling"):
        load(f"{HEADER}---\n{own}plugins: [{{name: GangScheduling, path: 'rack:Rack'}}]\n")


def test_profiles_that_sort_the_queue_with_other_arguments_are_refused_also_if_no_profile_names_the_plugin() -> None:
    args = "pluginConfig: [{name: PrioritySort, args: {a: 1}}]"
    text = f"{HEADER}profiles: [{{schedulerName: a, {args}}}, {{schedulerName: b}}]"
    with pytest.raises(ConfigurationError, match=r'profiles\[1\]: different queue sort plugin args for profile "b"'):
        build_profiles(load(text))
    build_profiles(load(f"{HEADER}profiles: [{{schedulerName: a, {args}}}, {{schedulerName: b, {args}}}]"))
