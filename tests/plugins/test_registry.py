from __future__ import annotations

import pytest

from scheduler.compose import build_profiles
from scheduler.config.args import decode_args
from scheduler.config.default_plugins import default_plugins
from scheduler.config.feature_gates import FeatureGates, parse_feature_gates
from scheduler.config.loading import load
from scheduler.errors import ConfigurationError
from scheduler.framework.plugin import Plugin
from scheduler.plugins.registry import BUILT_IN, registry
from scheduler.plugins.spread.pod_topology_spread import (
    ComparingPodTopologySpread,
    KeylessPodTopologySpread,
    PodTopologySpread,
)


def test_the_built_in_plugins_are_the_default_ones_in_their_order() -> None:
    defaults = tuple(entry.name for entry in default_plugins(FeatureGates()).multi_point.enabled)
    assert tuple(plugin.name for plugin in BUILT_IN) == defaults
    assert tuple(registry()) == defaults


def test_the_default_arguments_of_every_plugin_are_valid() -> None:
    for plugin_type in BUILT_IN:
        if plugin_type.Args is not None:
            args, faults = decode_args(plugin_type.Args, None, "args", plugin_type.name)
            assert not faults
            assert plugin_type.validate_args(args, "args") == ()
            assert plugin_type(args).args == args


def test_two_plugins_of_one_name_are_refused() -> None:
    class Impostor(Plugin):
        name = "NodeName"

    with pytest.raises(ConfigurationError, match="a plugin named NodeName already exists"):
        registry([Impostor])


def test_the_gate_of_comparison_operators_brings_the_plugins_that_compare_into_every_profile() -> None:
    configuration = load(gates=parse_feature_gates("TaintTolerationComparisonOperators=true"))
    (profile,) = build_profiles(configuration).values()
    comparing = {plugin.name for plugin in profile.plugins if getattr(type(plugin), "comparison_operators", False)}
    assert comparing == {"TaintToleration", "PodTopologySpread"}
    (profile,) = build_profiles(load()).values()
    assert not any(getattr(type(plugin), "comparison_operators", False) for plugin in profile.plugins)


NO_LABEL_KEYS = "MatchLabelKeysInPodTopologySpread=false,MatchLabelKeysInPodTopologySpreadSelectorMerge=false"


def test_a_plugin_takes_the_form_of_its_gates_and_of_several_all_of_them() -> None:
    def spread(gates: str) -> type[Plugin]:
        return registry(gates=parse_feature_gates(gates))["PodTopologySpread"]

    assert spread("") is PodTopologySpread
    assert spread(NO_LABEL_KEYS) is KeylessPodTopologySpread
    both = spread(f"TaintTolerationComparisonOperators=true,{NO_LABEL_KEYS}")
    assert issubclass(both, ComparingPodTopologySpread) and issubclass(both, KeylessPodTopologySpread)
    (profile,) = build_profiles(load(gates=parse_feature_gates(NO_LABEL_KEYS))).values()
    assert any(type(plugin) is KeylessPodTopologySpread for plugin in profile.plugins)
