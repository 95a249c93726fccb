"""The ``--feature-gates`` flag, by the rules of kube-scheduler 1.36, and the gates that have an effect here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from scheduler.config.gate_table import GATES, Stage
from scheduler.config.suggestions import did_you_mean
from scheduler.errors import ConfigurationError, Fault

HONOURED: Final = frozenset(
    {
        "DRAWorkloadResourceClaims",
        "GangScheduling",
        "GenericWorkload",
        "MatchLabelKeysInPodTopologySpread",
        "NodeDeclaredFeatures",
        "NominatedNodeNameForExpectation",
        "SchedulerPopFromBackoffQ",
        "StorageCapacityScoring",
        "TaintTolerationComparisonOperators",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
    }
)
"""The gates that can be switched here."""

DECIDING: Final = frozenset(
    {
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaintRules",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
        "DRAResourceClaimDeviceStatus",
        "DRASchedulerFilterTimeout",
        "PodLevelResources",
        "VolumeLimitScaling",
    }
)
"""The gates that change kube-scheduler's decisions or writes and can't be switched here: decisions are as with their
defaults, and another value is refused. All other gates that kube-scheduler accepts are accepted.

InPlacePodLevelResourcesVerticalScaling is not among them: what it makes kube-scheduler count is a pod's
``status.resources``, which only kubelets with the same gate write; NodeDeclaredFeatures can't be off while it is on.
"""

_COMPONENT: Final = "kube"
_WHOLE_STAGES: Final = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
# The spellings that Go reads as a boolean.
_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


class FeatureGates(msgspec.Struct, frozen=True):
    """Which features are on. ``explicit`` holds what was set by hand, by gate; ``warnings`` is for the log."""

    explicit: Mapping[str, bool] = MappingProxyType({})
    warnings: tuple[str, ...] = ()

    def enabled(self, gate: str) -> bool:
        """Whether a feature is on. Raises KeyError for a gate that 1.36 doesn't have."""
        return _is_on(gate, self.explicit)

    def having(self, gate: str) -> FeatureGates:
        """A copy of these gates, with one that is on."""
        return msgspec.structs.replace(self, explicit=MappingProxyType({**self.explicit, gate: True}))


def parse_feature_gates(flags: str | Iterable[str]) -> FeatureGates:
    """Parse ``--feature-gates`` values, each ``[kube:]Name=true|false,…``; later ones win.

    Raises ConfigurationError with every fault, in kube-scheduler's words if it has the same fault.
    """
    explicit: dict[str, bool] = {}
    faults: list[Fault] = []
    prefixes: set[str] = set()
    for flag in [flags] if isinstance(flags, str) else flags:
        for setting in filter(None, (part.strip() for part in flag.split(","))):
            component, colon, named = setting.partition(":")
            prefixes.add(component.strip() if colon else "")
            _read(named if colon else setting, explicit, faults)
    for component in sorted(prefixes - {"", _COMPONENT}):
        faults.append(Fault("", f"component not registered: {component}"))
    if {"", _COMPONENT} <= prefixes:
        text = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
        faults.append(Fault("", text))
    faults += list(_missing_requirements(explicit)) + list(_unsupported(explicit))
    if faults:
        raise ConfigurationError(faults)
    return FeatureGates(MappingProxyType(explicit), tuple(_warnings(explicit)))


def _is_on(name: str, explicit: Mapping[str, bool]) -> bool:
    known = GATES[name]
    if name in explicit:
        return explicit[name]
    for whole, stage in _WHOLE_STAGES.items():
        if known.stage is stage and not known.locked and whole in explicit:
            return explicit[whole]
    return known.default


def _read(setting: str, explicit: dict[str, bool], faults: list[Fault]) -> None:
    """Add one ``Name=bool`` to ``explicit``, or its fault to ``faults``."""
    name, equals, text = (part.strip() for part in setting.partition("="))
    value = _BOOLEANS.get(text)
    if not equals:
        faults.append(Fault("", f"missing bool value for {name}"))
    elif value is None:
        reason = f'strconv.ParseBool: parsing "{text}": invalid syntax'
        faults.append(Fault("", f"invalid value of {name}={text}, err: {reason}"))
    elif (fault := _refusal(name, value)) is not None:
        faults.append(fault)
    else:
        explicit[name] = value


def _refusal(name: str, value: bool) -> Fault | None:
    if name in _WHOLE_STAGES:
        return None
    gate = GATES.get(name)
    if gate is None:
        return Fault("", f"unrecognized feature gate: {name}{did_you_mean(name, GATES)}")
    if gate.locked and value is not gate.default:
        wanted, locked = str(value).lower(), str(gate.default).lower()
        return Fault("", f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}")
    return None


def _missing_requirements(explicit: Mapping[str, bool]) -> Iterator[Fault]:
    """Faults for features that are on without the features they depend on."""
    for name, gate in GATES.items():
        if gate.requires and _is_on(name, explicit):
            missing = [other for other in gate.requires if not _is_on(other, explicit)]
            if missing:
                text = f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
                yield Fault("", text)


def _unsupported(explicit: Mapping[str, bool]) -> Iterator[Fault]:
    """A fault for each deciding gate that is switched away from its default, by its name or with its stage."""
    for name in sorted(DECIDING):
        default = GATES[name].default
        if _is_on(name, explicit) is not default:
            setting, kept = f"{name}={str(not default).lower()}", f"{name}={str(default).lower()}"
            yield Fault("", f"feature gate {setting} is not supported by Tandem, which decides as with {kept}")


def _warnings(explicit: Mapping[str, bool]) -> Iterator[str]:
    """Warnings about gates that will be removed, and about settings without effect."""
    for name, value in explicit.items():
        setting = f"feature gate {name}={str(value).lower()}"
        if name in _WHOLE_STAGES:
            switched = sorted(gate for gate in HONOURED if GATES[gate].stage is _WHOLE_STAGES[name])
            yield f"{setting} switches only {', '.join(switched)}: no other gate of that stage matters in Tandem"
            continue
        gate = GATES[name]
        if gate.stage in (Stage.STABLE, Stage.DEPRECATED):
            kind = gate.stage.value if gate.stage is Stage.STABLE else "deprecated"
            yield f"Setting {kind} {setting}. It will be removed in a future release."
        if name not in HONOURED and gate.default is not value:
            yield f"{setting} has no effect: nothing that Tandem does depends on it"
