"""``pluginConfig`` of built-in plugins, also of those that no point of the profile enables."""

from __future__ import annotations

import pytest

from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.errors import ConfigurationError

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = "defaultingType: List, defaultConstraints"


def build_with(plugin: str, args: str) -> None:
    build_profiles(load(f"{HEADER}profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"))


def build_without(plugin: str, args: str) -> None:
    disabled = f"plugins: {{multiPoint: {{disabled: [{{name: {plugin}}}]}}}}"
    build_profiles(load(f"{HEADER}profiles: [{{{disabled}, pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"))


@pytest.mark.parametrize(
    ("plugin", "args", "fault"),
    [
        ("NodeAffinity", "{adedAffinity: {}}", 'unknown field "adedAffinity"'),
        (
            "InterPodAffinity",
            "{hardPodAffinityWeight: 101}",
            r"hardPodAffinityWeight: .* valid range \[0, 100\]",
        ),
        ("DefaultPreemption", "{kind: FooArgs}", "not of type DefaultPreemptionArgs"),
    ],
)
def test_those_of_plugins_that_no_point_enables_are_checked_like_others(plugin: str, args: str, fault: str) -> None:
    for build in (build_with, build_without):
        with pytest.raises(ConfigurationError, match=fault):
            build(plugin, args)


def test_and_so_are_those_whose_values_kube_scheduler_leaves_alone() -> None:
    with pytest.raises(ConfigurationError, match=r"args.scoringStrategy.type: Unsupported value"):
        build_without("NodeResourcesFit", "{scoringStrategy: {type: Best}}")


def test_valid_ones_are_taken() -> None:
    build_without("InterPodAffinity", "{hardPodAffinityWeight: 100}")


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("NodeAffinity", f"{{addedAffinity: {{{PREFERRED}: [{{weight: %d, preference: {{}}}}]}}}}"),
        ("PodTopologySpread", f"{{{SPREAD}: [{{topologyKey: a, maxSkew: %d}}]}}"),
        ("PodTopologySpread", f"{{{SPREAD}: [{{topologyKey: a, maxSkew: 1, minDomains: %d}}]}}"),
    ],
)
def test_numbers_of_api_objects_in_args_have_32_bits(plugin: str, args: str, number: int) -> None:
    with pytest.raises(ConfigurationError, match="must be between -2147483648 and 2147483647"):
        build_with(plugin, args % number)


def test_an_extender_may_account_for_a_resource_where_no_point_enables_noderesourcesfit() -> None:
    extender = "{urlPrefix: 'http://x', managedResources: [{name: a.b/c, ignoredByScheduler: true}]}"
    build_profiles(
        load(
            f"{HEADER}profiles: [{{plugins: {{multiPoint: {{disabled: [{{name: NodeResourcesFit}}]}}}}}}]\n"
            f"extenders: [{extender}]\n"
        )
    )
