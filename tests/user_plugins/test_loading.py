"""User plugins by path and by entry point, and what is said of those that can't be loaded."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from scheduler.compose import all_plugins, build_profiles
from scheduler.config.loading import load
from scheduler.config.points import PluginEntry, Plugins, PluginSet
from scheduler.config.tandem import UserPlugin
from scheduler.errors import ConfigurationError
from scheduler.framework.profile import Profile
from scheduler.user_plugins.loading import ENTRY_POINT_GROUP, PluginClasses, load_user_plugins
from scheduler.user_plugins.sources import PluginSources

SAMPLES = "tests.user_plugins.samples"
BUILT_IN = ("NodeName",)
ROOT = Path(__file__).parents[2]


def sample_classes() -> PluginClasses:
    """With the samples beside this file, which are not installed."""
    return PluginClasses(PluginSources(ROOT))


def profiles_of(text: str) -> dict[str, Profile]:
    loaded = load(text)
    return build_profiles(loaded, all_plugins(loaded, sample_classes()))


def configuration(plugins: str, enabled: str = "[]", plugin_config: str = "[]") -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{resourceName: tandem-scheduler}}
profiles:
- schedulerName: tandem-scheduler
  plugins: {{multiPoint: {{enabled: {enabled}}}}}
  pluginConfig: {plugin_config}
---
apiVersion: tandem.scheduling/v1alpha1
kind: TandemConfiguration
plugins: {plugins}
"""


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        profiles_of(text)
    return [str(fault) for fault in caught.value.faults]


def fault_of(class_name: str) -> str:
    (fault,) = faults(configuration(f'[{{name: Mine, path: "{SAMPLES}:{class_name}"}}]'))
    return fault.removeprefix(f'plugins[0].path: Invalid value: "{SAMPLES}:{class_name}": ')


def offered(name: str, class_name: str) -> EntryPoint:
    return EntryPoint(name, f"{SAMPLES}:{class_name}", ENTRY_POINT_GROUP)


def enabling(*names: str) -> list[Plugins]:
    return [Plugins(filter=PluginSet(enabled=tuple(PluginEntry(name) for name in names)))]


def test_a_plugin_named_by_its_path_runs_at_its_points_under_the_configured_name() -> None:
    text = configuration(f'[{{name: Mine, path: "{SAMPLES}:Rack"}}]', "[{name: Mine}]")
    profile = profiles_of(text)["tandem-scheduler"]
    assert "Mine" in [plugin.name for plugin in profile.filter_plugins]
    assert "Mine" not in [plugin.name for plugin, _ in profile.score_plugins]


def test_a_plugin_that_no_profile_enables_is_loaded_and_left_alone() -> None:
    loaded = load(configuration(f'[{{name: Mine, path: "{SAMPLES}:Unmakable"}}]'))
    assert "Mine" in all_plugins(loaded, sample_classes())


def test_one_class_can_be_two_plugins_with_arguments_of_their_own() -> None:
    text = configuration(
        f'[{{name: A, path: "{SAMPLES}:Rack"}}, {{name: B, path: "{SAMPLES}:Rack"}}]',
        "[{name: A}, {name: B}]",
        "[{name: B, args: {label: row}}]",
    )
    plugins = {plugin.name: plugin for plugin in profiles_of(text)["tandem-scheduler"].filter_plugins}
    assert (plugins["A"].args.label, plugins["B"].args.label) == ("rack", "row")


def test_what_can_not_be_loaded_is_said_with_the_path_of_its_field() -> None:
    assert faults(configuration('[{name: Mine, path: "no.such.module:Rack"}]')) == [
        'plugins[0].path: Invalid value: "no.such.module:Rack": there is no module no'
    ]
    assert fault_of("Missing") == f"module {SAMPLES} has no Missing"
    not_derived = "is not a plugin: its class must derive from one of scheduler.plugin, such as PerNodeFilter"
    assert fault_of("NotAPlugin") == f"NotAPlugin {not_derived}"
    assert fault_of("NOT_A_CLASS") == f"NOT_A_CLASS {not_derived}"


def test_a_module_that_fails_while_it_is_imported_is_reported_with_its_error() -> None:
    (fault,) = faults(configuration('[{name: Mine, path: "tests.user_plugins.failing_module:Rack"}]'))
    assert fault.endswith("importing tests.user_plugins.failing_module failed: RuntimeError: no quorum")


def test_a_module_that_raises_what_is_no_exception_is_reported_too() -> None:
    (fault,) = faults(configuration('[{name: Mine, path: "tests.user_plugins.panicking_module:Rack"}]'))
    assert fault.endswith("importing tests.user_plugins.panicking_module failed: Panic: index out of bounds")


@pytest.mark.parametrize(
    ("class_name", "text"),
    [
        ("Registered", "deriving from Registered failed: ValueError: Rack is registered twice"),
        ("Lazy", "Lazy of tests.user_plugins.unusual_module is not to be had: KeyError: 'Lazy'"),
    ],
)
def test_a_class_that_can_not_be_had_or_derived_from_is_a_fault_of_its_field(class_name: str, text: str) -> None:
    (fault,) = faults(configuration(f'[{{name: Mine, path: "tests.user_plugins.unusual_module:{class_name}"}}]'))
    assert fault == f'plugins[0].path: Invalid value: "tests.user_plugins.unusual_module:{class_name}": {text}'


@pytest.mark.parametrize(
    ("class_name", "text"),
    [
        ("Labelled", "LabelArgs: KeyError: 'label'"),
        ("Unknown", "UnknownArgs: NameError: name 'Nowhere' is not defined"),
    ],
)
def test_arguments_that_can_not_be_made_are_a_fault_of_their_field(class_name: str, text: str) -> None:
    plugins = f'[{{name: Mine, path: "tests.user_plugins.unusual_module:{class_name}"}}]'
    (fault,) = faults(configuration(plugins, "[{name: Mine}]", "[{name: Mine, args: {label: x}}]"))
    assert fault == f"profiles[0].pluginConfig[0].args: {text}"


def test_an_incomplete_class_is_reported_with_all_that_it_lacks() -> None:
    assert "takes part in no extension point" in fault_of("Idle")
    incomplete = fault_of("Incomplete")
    for text in ("filter is missing", "score is missing", "reads is declared, so fragment must be defined"):
        assert text in incomplete
    text = fault_of("NotAwaiting")
    assert "pre_bind must be a coroutine (async def)" in text
    assert "time_limit_seconds must be above 0 and at most 600" in text


def test_every_plugin_that_can_not_be_loaded_is_reported_at_once() -> None:
    assert len(faults(configuration(f'[{{name: A, path: "x:Y"}}, {{name: B, path: "{SAMPLES}:Missing"}}]'))) == 2


def test_names_of_built_in_plugins_and_repeated_names_are_refused() -> None:
    rack = f'path: "{SAMPLES}:Rack"'
    with pytest.raises(ConfigurationError) as caught:
        load(configuration(f"[{{name: NodeName, {rack}}}, {{name: A, {rack}}}, {{name: A, {rack}}}]"))
    assert [fault.path for fault in caught.value.faults] == ["plugins[0].name", "plugins[2].name"]


def test_a_plugin_that_can_not_be_made_is_reported_with_its_field_and_its_error() -> None:
    text = configuration(f'[{{name: Mine, path: "{SAMPLES}:Unmakable"}}]', "[{name: Mine}]")
    assert faults(text) == ['plugins[0]: initializing plugin "Mine": OSError: no licence']


def test_arguments_are_decoded_strictly_and_validated_by_the_plugin() -> None:
    plugins = f'[{{name: Mine, path: "{SAMPLES}:Rack"}}]'
    place = "profiles[0].pluginConfig[0].args"
    assert faults(configuration(plugins, "[{name: Mine}]", '[{name: Mine, args: {label: ""}}]')) == [
        f"{place}.label: must not be empty"
    ]
    (unknown,) = faults(configuration(plugins, "[{name: Mine}]", "[{name: Mine, args: {lable: x}}]"))
    assert 'unknown field "lable"' in unknown
    (mistyped,) = faults(configuration(plugins, "[{name: Mine}]", "[{name: Mine, args: {weightOfIt: x}}]"))
    assert f"{place}.weightOfIt" in mistyped


def test_a_validation_that_raises_is_a_fault_of_the_arguments() -> None:
    plugins = f'[{{name: Mine, path: "{SAMPLES}:Moody"}}]'
    (fault,) = faults(configuration(plugins, "[{name: Mine}]", "[{name: Mine, args: {label: x}}]"))
    assert fault == "profiles[0].pluginConfig[0].args: ZeroDivisionError: by zero"


def test_an_installed_plugin_is_found_when_a_profile_enables_it() -> None:
    found = load_user_plugins((), enabling("NodeName", "Rack"), BUILT_IN, sample_classes(), [offered("Rack", "Rack")])
    assert list(found) == ["Rack"]


def test_an_installed_plugin_that_no_profile_enables_can_not_fail() -> None:
    assert load_user_plugins((), enabling("NodeName"), BUILT_IN, sample_classes(), [offered("Other", "Missing")]) == {}


def test_an_installed_plugin_that_can_not_be_loaded_is_reported_with_its_entry_point() -> None:
    with pytest.raises(ConfigurationError, match=r"entry point tandem\.plugins Rack .*has no Missing"):
        load_user_plugins((), enabling("Rack"), BUILT_IN, sample_classes(), [offered("Rack", "Missing")])


def test_two_packages_that_offer_one_name_are_a_clash() -> None:
    offers = [offered("Rack", "Rack"), offered("Rack", "Broken")]
    with pytest.raises(ConfigurationError, match="name one of them under plugins"):
        load_user_plugins((), enabling("Rack"), BUILT_IN, sample_classes(), offers)


def test_the_configuration_wins_over_an_installed_package_and_built_in_plugins_over_both() -> None:
    configured = (UserPlugin("Rack", f"{SAMPLES}:Broken"),)
    found = load_user_plugins(
        configured,
        enabling("Rack", "NodeName"),
        BUILT_IN,
        sample_classes(),
        [offered("Rack", "Rack"), offered("NodeName", "Rack")],
    )
    assert [found["Rack"].__name__, *found] == ["Broken", "Rack"]


def test_a_name_that_no_package_offers_does_not_exist() -> None:
    assert faults(configuration("[]", "[{name: Ghost}]")) == ['profiles[0]: PreFilterPlugin "Ghost" does not exist']
