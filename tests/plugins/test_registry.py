from __future__ import annotations

import pytest

from scheduler.config.args import decode_args
from scheduler.config.default_plugins import default_plugin_names
from scheduler.config.feature_gates import FeatureGates
from scheduler.errors import ConfigurationError
from scheduler.framework.plugin import Plugin
from scheduler.plugins.registry import BUILT_IN, registry


def test_the_built_in_plugins_are_the_default_ones_in_their_order() -> None:
    assert tuple(plugin.name for plugin in BUILT_IN) == default_plugin_names(FeatureGates())
    assert tuple(registry()) == default_plugin_names(FeatureGates())


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
