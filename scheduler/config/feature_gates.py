"""Feature gates: those of kube-scheduler 1.36 that change what a scheduler does, and the ``--feature-gates`` flag."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from scheduler.errors import ConfigurationError, Fault


class Stage(enum.Enum):
    """How far a feature has come."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    STABLE = "GA"


class FeatureGate(msgspec.Struct, frozen=True):
    """A gate as 1.36 ships it. A locked gate can only be set to its default."""

    default: bool
    stage: Stage
    locked: bool = False


_LOCKED: Final = FeatureGate(True, Stage.STABLE, locked=True)
_STABLE: Final = FeatureGate(True, Stage.STABLE)
_BETA: Final = FeatureGate(True, Stage.BETA)
_BETA_OFF: Final = FeatureGate(False, Stage.BETA)
_ALPHA: Final = FeatureGate(False, Stage.ALPHA)

GATES: Final[Mapping[str, FeatureGate]] = MappingProxyType(
    {
        "SchedulerQueueingHints": _LOCKED,
        "SchedulerPopFromBackoffQ": _BETA,
        "SchedulerAsyncPreemption": _BETA,
        "SchedulerAsyncAPICalls": _BETA_OFF,
        "NominatedNodeNameForExpectation": _BETA,
        "OpportunisticBatching": _BETA,
        "NodeDeclaredFeatures": _BETA,
        "DynamicResourceAllocation": _LOCKED,
        "DRAExtendedResource": _BETA,
        "DRAPartitionableDevices": _BETA,
        "DRAConsumableCapacity": _BETA,
        "DRADeviceTaints": _BETA,
        "DRADeviceBindingConditions": _BETA,
        "DRAPrioritizedList": _STABLE,
        "DRAAdminAccess": _LOCKED,
        "DRASchedulerFilterTimeout": _BETA,
        "DRAResourceClaimDeviceStatus": _BETA,
        "DRADeviceTaintRules": _BETA_OFF,
        "DRAListTypeAttributes": _ALPHA,
        "DRANodeAllocatableResources": _ALPHA,
        "DRAWorkloadResourceClaims": _ALPHA,
        "PodLevelResources": _BETA,
        "InPlacePodVerticalScaling": _LOCKED,
        "InPlacePodLevelResourcesVerticalScaling": _BETA,
        "MatchLabelKeysInPodTopologySpread": _BETA,
        "NodeInclusionPolicyInPodTopologySpread": _LOCKED,
        "MatchLabelKeysInPodAffinity": _STABLE,
        "TaintTolerationComparisonOperators": _ALPHA,
        "StorageCapacityScoring": _ALPHA,
        "VolumeLimitScaling": _ALPHA,
        "VolumeAttributesClass": _LOCKED,
        "MutableCSINodeAllocatableCount": _LOCKED,
        "GenericWorkload": _ALPHA,
        "GangScheduling": _ALPHA,
        "TopologyAwareWorkloadScheduling": _ALPHA,
        "WorkloadAwarePreemption": _ALPHA,
        "CoordinatedLeaderElection": _BETA_OFF,
        "ComponentFlagz": _BETA,
        "ComponentStatusz": _BETA,
    }
)

HONOURED: Final = frozenset({"NodeDeclaredFeatures", "SchedulerPopFromBackoffQ"})
"""Those that can be switched here. What the others stand for is as in 1.36 by default, whatever is set."""

NOT_SUPPORTED: Final = frozenset(
    {"DRADeviceTaintRules", "DRAListTypeAttributes", "DRANodeAllocatableResources", "DRAWorkloadResourceClaims"}
)
"""Those that can't be switched on: without what they stand for, devices would be given that must not be."""

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
        known = GATES[gate]
        if gate in self.explicit:
            return self.explicit[gate]
        for name, stage in _WHOLE_STAGES.items():
            if known.stage is stage and not known.locked and name in self.explicit:
                return self.explicit[name]
        return known.default


def parse_feature_gates(flags: str | Iterable[str]) -> FeatureGates:
    """Read ``--feature-gates`` values, each ``Name=true|false,…``; later ones win.

    Raises ConfigurationError with every fault, in kube-scheduler's words.
    """
    explicit: dict[str, bool] = {}
    faults: list[Fault] = []
    for flag in [flags] if isinstance(flags, str) else flags:
        for setting in filter(None, (part.strip() for part in flag.split(","))):
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
    if faults:
        raise ConfigurationError(faults)
    warnings = tuple(
        f"Setting GA feature gate {name}={str(value).lower()}. It will be removed in a future release."
        for name, value in explicit.items()
        if name in GATES and GATES[name].stage is Stage.STABLE
    )
    return FeatureGates(MappingProxyType(explicit), warnings + tuple(_without_effect(explicit)))


def _without_effect(explicit: Mapping[str, bool]) -> Iterator[str]:
    """A line for each setting that asks for something else than what is done anyway."""
    for name, value in explicit.items():
        setting = f"feature gate {name}={str(value).lower()}"
        if name in _WHOLE_STAGES:
            honoured = sorted(gate for gate in HONOURED if GATES[gate].stage is _WHOLE_STAGES[name])
            if honoured:
                yield f"{setting} switches {' and '.join(honoured)} only: no other can be switched in Tandem"
            else:
                yield f"{setting} has no effect: none of them can be switched in Tandem"
        elif name not in HONOURED and GATES[name].default is not value:
            yield f"{setting} has no effect: it can't be switched in Tandem"


def _refusal(name: str, value: bool) -> Fault | None:
    if name in _WHOLE_STAGES:
        return None
    gate = GATES.get(name)
    if gate is None:
        return Fault("", f"unrecognized feature gate: {name}")
    if gate.locked and value is not gate.default:
        wanted, locked = str(value).lower(), str(gate.default).lower()
        return Fault("", f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}")
    if name in NOT_SUPPORTED and value:
        return Fault("", f"cannot set feature gate {name} to true, it is not supported by Tandem")
    return None
