"""The --feature-gates flag."""

from __future__ import annotations

import pytest

from scheduler.cli.shell_settings import kinds_read
from scheduler.compose import engine_settings
from scheduler.config.default_plugins import default_plugins
from scheduler.config.feature_gates import DECIDING, FeatureGates, parse_feature_gates
from scheduler.config.gate_table import GATES, Stage
from scheduler.config.loading import load
from scheduler.errors import ConfigurationError
from scheduler.objects.kinds import READ_KINDS, Kind

NEEDS_DECLARED_FEATURES = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)


def defaults(gates: FeatureGates) -> tuple[str, ...]:
    return tuple(entry.name for entry in default_plugins(gates).multi_point.enabled)


def faults(flags: str | list[str]) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        parse_feature_gates(flags)
    return [str(fault) for fault in caught.value.faults]


def test_gates_have_the_defaults_of_1_36() -> None:
    gates = FeatureGates()
    assert gates.enabled("SchedulerQueueingHints")
    assert gates.enabled("OpportunisticBatching")
    assert not gates.enabled("SchedulerAsyncAPICalls")
    assert not gates.enabled("TaintTolerationComparisonOperators")


def test_every_gate_of_1_36_is_accepted_at_its_default_with_and_without_the_name_of_the_component() -> None:
    for prefix in ("", "kube:"):
        stated = ",".join(f"{prefix}{name}={str(gate.default).lower()}" for name, gate in GATES.items())
        assert parse_feature_gates(stated).explicit == {name: gate.default for name, gate in GATES.items()}
    assert {"ClearingNominatedNodeNameAfterBinding", "WatchListClient", "ContextualLogging"} <= GATES.keys()
    assert len(GATES) == 239


def test_the_last_of_several_settings_of_a_gate_wins() -> None:
    gates = parse_feature_gates(
        ["SchedulerAsyncPreemption=false, SchedulerAsyncAPICalls=T", "SchedulerAsyncAPICalls=0"]
    )
    assert not gates.enabled("SchedulerAsyncPreemption")
    assert not gates.enabled("SchedulerAsyncAPICalls")


def test_a_whole_stage_can_be_set_and_single_gates_exempted() -> None:
    alpha_and_deciding = [name for name in DECIDING if GATES[name].stage is Stage.ALPHA]
    exempt = ",".join(f"{name}=false" for name in (*alpha_and_deciding, "WorkloadWithJob"))
    gates = parse_feature_gates(f"AllAlpha=true,{exempt}")
    assert gates.enabled("TaintTolerationComparisonOperators")
    assert not gates.enabled("VolumeLimitScaling")
    assert gates.enabled("SchedulerQueueingHints")


def test_all_faults_of_the_flag_are_reported() -> None:
    assert faults("Nope=true,SchedulerQueueingHints=false,PodLevelResources,NodeDeclaredFeatures=maybe") == [
        "unrecognized feature gate: Nope",
        "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        "missing bool value for PodLevelResources",
        'invalid value of NodeDeclaredFeatures=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
    ]


def test_only_one_component_is_known_and_its_name_is_stated_always_or_never() -> None:
    mixed = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
    assert faults("wardle:PodLevelResources=true") == ["component not registered: wardle"]
    assert faults(["kube:PodLevelResources=true", "NodeDeclaredFeatures=true"]) == [mixed]
    assert not parse_feature_gates("kube:SchedulerPopFromBackoffQ=false").enabled("SchedulerPopFromBackoffQ")


def test_a_gate_that_is_on_needs_those_that_it_depends_on() -> None:
    assert faults("NodeDeclaredFeatures=false") == [
        f"{name} is enabled, but depends on features that are disabled: [NodeDeclaredFeatures]"
        for name in NEEDS_DECLARED_FEATURES
    ]


def test_setting_a_stable_or_deprecated_gate_warns() -> None:
    assert parse_feature_gates("SchedulerQueueingHints=true").warnings == (
        "Setting GA feature gate SchedulerQueueingHints=true. It will be removed in a future release.",
    )
    assert parse_feature_gates("StorageNamespaceIndex=true").warnings == (
        "Setting deprecated feature gate StorageNamespaceIndex=true. It will be removed in a future release.",
    )


def test_a_gate_that_changes_decisions_in_a_way_that_is_not_supported_is_refused() -> None:
    assert faults("VolumeLimitScaling=true,DRAExtendedResource=false") == [
        "feature gate DRAExtendedResource=false is not supported by Tandem, which decides as with "
        "DRAExtendedResource=true",
        "feature gate VolumeLimitScaling=true is not supported by Tandem, which decides as with "
        "VolumeLimitScaling=false",
    ]
    assert parse_feature_gates("VolumeLimitScaling=false,DRAExtendedResource=true").warnings == ()


def test_a_whole_stage_is_refused_where_it_would_switch_such_a_gate() -> None:
    refused = "feature gate VolumeLimitScaling=true is not supported"
    assert any(fault.startswith(refused) for fault in faults("AllAlpha=1"))
    assert any(fault.startswith("feature gate PodLevelResources=false is not") for fault in faults("AllBeta=false"))


def test_a_gate_that_tandem_does_not_depend_on_is_accepted_and_warned_of() -> None:
    assert parse_feature_gates("OpportunisticBatching=false,ClearingNominatedNodeNameAfterBinding=true").warnings == (
        "feature gate OpportunisticBatching=false has no effect: nothing that Tandem does depends on it",
    )
    assert parse_feature_gates("SchedulerPopFromBackoffQ=false").warnings == ()


def test_a_whole_stage_warns_of_how_little_it_changes() -> None:
    stated = [f"{name}=true" for name in sorted(DECIDING) if GATES[name].stage is Stage.BETA and GATES[name].default]
    requiring = [f"{name}=false" for name in NEEDS_DECLARED_FEATURES]
    gates = parse_feature_gates(["AllBeta=false", "NodeDeclaredFeatures=true", *stated, *requiring])
    assert gates.warnings[0] == (
        "feature gate AllBeta=false switches only MatchLabelKeysInPodTopologySpread, NodeDeclaredFeatures, "
        "NominatedNodeNameForExpectation, SchedulerPopFromBackoffQ: no other gate of that stage matters in Tandem"
    )


def test_groups_of_pods_are_behind_the_gates_that_depend_on_each_other() -> None:
    assert faults("GangScheduling=true,TopologyAwareWorkloadScheduling=true") == [
        "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        "TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
    ]
    gates = parse_feature_gates("GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true")
    assert gates.warnings == ()
    assert defaults(gates)[-3:] == ("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
    assert set(READ_KINDS) - set(kinds_read(gates)) == {Kind.COSCHEDULING_POD_GROUP}
    assert Kind.POD_GROUP not in kinds_read(FeatureGates())


def test_preemption_for_a_whole_group_needs_gangs() -> None:
    assert faults("GenericWorkload=true,WorkloadAwarePreemption=true") == [
        "WorkloadAwarePreemption is enabled, but depends on features that are disabled: [GangScheduling]"
    ]
    gates = parse_feature_gates("GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true")
    assert gates.warnings == ()


def test_whether_pods_are_taken_early_from_the_back_off_is_a_gate() -> None:
    assert engine_settings(load()).queue.pops_from_backoff
    off = load(gates=parse_feature_gates("SchedulerPopFromBackoffQ=false"))
    assert not engine_settings(off).queue.pops_from_backoff


def test_a_plugin_behind_a_gate_that_is_off_is_no_default() -> None:
    off = parse_feature_gates([f"{name}=false" for name in ("NodeDeclaredFeatures", *NEEDS_DECLARED_FEATURES)])
    assert "NodeDeclaredFeatures" not in defaults(off)
    assert defaults(FeatureGates())[-2:] == ("DefaultBinder", "NodeDeclaredFeatures")
