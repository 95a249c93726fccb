"""The --feature-gates flag."""

from __future__ import annotations

import pytest

from scheduler.compose import engine_settings
from scheduler.config.default_plugins import default_plugin_names
from scheduler.config.feature_gates import NOT_SUPPORTED, FeatureGates, parse_feature_gates
from scheduler.config.loading import load
from scheduler.errors import ConfigurationError


def test_gates_have_the_defaults_of_1_36() -> None:
    gates = FeatureGates()
    assert gates.enabled("SchedulerQueueingHints")
    assert gates.enabled("OpportunisticBatching")
    assert not gates.enabled("SchedulerAsyncAPICalls")
    assert not gates.enabled("TaintTolerationComparisonOperators")


def test_later_settings_win() -> None:
    gates = parse_feature_gates(
        ["SchedulerAsyncPreemption=false, SchedulerAsyncAPICalls=T", "SchedulerAsyncAPICalls=0"]
    )
    assert not gates.enabled("SchedulerAsyncPreemption")
    assert not gates.enabled("SchedulerAsyncAPICalls")


def test_a_whole_stage_can_be_set_and_single_gates_exempted() -> None:
    gates = parse_feature_gates("AllAlpha=true,VolumeLimitScaling=false,AllBeta=false")
    assert gates.enabled("GangScheduling")
    assert not gates.enabled("VolumeLimitScaling")
    assert not gates.enabled("NodeDeclaredFeatures")
    assert gates.enabled("SchedulerQueueingHints")


def test_all_faults_of_the_flag_are_told() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_feature_gates("Nope=true,SchedulerQueueingHints=false,PodLevelResources,NodeDeclaredFeatures=maybe")
    assert [str(fault) for fault in caught.value.faults] == [
        "unrecognized feature gate: Nope",
        "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        "missing bool value for PodLevelResources",
        'invalid value of NodeDeclaredFeatures=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
    ]


def test_setting_a_stable_gate_warns() -> None:
    assert parse_feature_gates("SchedulerQueueingHints=true").warnings == (
        "Setting GA feature gate SchedulerQueueingHints=true. It will be removed in a future release.",
    )


def test_a_gate_that_can_not_be_switched_here_warns_unless_it_is_set_to_what_is_done_anyway() -> None:
    gates = parse_feature_gates("GangScheduling=true,OpportunisticBatching=true,DRAExtendedResource=false")
    assert gates.warnings == (
        "feature gate GangScheduling=true has no effect: it can't be switched in Tandem",
        "feature gate DRAExtendedResource=false has no effect: it can't be switched in Tandem",
    )
    assert parse_feature_gates("NodeDeclaredFeatures=false,SchedulerPopFromBackoffQ=false").warnings == ()


def test_a_whole_stage_warns_of_how_little_it_changes() -> None:
    assert parse_feature_gates("AllAlpha=true,AllBeta=false").warnings == (
        "feature gate AllAlpha=true has no effect: none of them can be switched in Tandem",
        "feature gate AllBeta=false switches NodeDeclaredFeatures and SchedulerPopFromBackoffQ only: "
        "no other can be switched in Tandem",
    )


def test_whether_pods_are_taken_early_from_the_back_off_is_a_gate() -> None:
    assert engine_settings(load()).queue.pops_from_backoff
    off = load(gates=parse_feature_gates("SchedulerPopFromBackoffQ=false"))
    assert not engine_settings(off).queue.pops_from_backoff


def test_a_plugin_behind_a_gate_that_is_off_is_no_default() -> None:
    off = parse_feature_gates("NodeDeclaredFeatures=false")
    assert "NodeDeclaredFeatures" not in default_plugin_names(off)
    assert default_plugin_names(FeatureGates())[-2:] == ("DefaultBinder", "NodeDeclaredFeatures")


@pytest.mark.parametrize("gate", sorted(NOT_SUPPORTED))
def test_a_gate_of_devices_that_is_not_supported_is_refused_when_it_is_switched_on(gate: str) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot set feature gate {gate} to true, it is not supported"):
        parse_feature_gates(f"{gate}=true")
    assert not parse_feature_gates(f"{gate}=false").enabled(gate)
