"""The built-in plugins, in the default order of every extension point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.config.feature_gates import FeatureGates
from scheduler.errors import ConfigurationError, Fault
from scheduler.framework.plugin import Plugin
from scheduler.plugins.affinity.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.devices.dynamic_resources import DynamicResources
from scheduler.plugins.groups.gang_scheduling import GangScheduling
from scheduler.plugins.groups.pod_group_pods_count import PodGroupPodsCount
from scheduler.plugins.groups.topology_placement import TopologyPlacementGenerator
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.resources.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.resources.node_resources_fit import NodeResourcesFit
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.spread.pod_topology_spread import (
    ComparingPodTopologySpread,
    KeylessPodTopologySpread,
    PodTopologySpread,
)
from scheduler.plugins.taint_toleration import ComparingTaintToleration, TaintToleration
from scheduler.plugins.volume_binding.capacity_scores import CapacityScoringVolumeBinding
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone

BUILT_IN: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
)


FORMS: tuple[tuple[str, bool, type[Plugin], type[Plugin]], ...] = (
    ("MatchLabelKeysInPodTopologySpread", False, PodTopologySpread, KeylessPodTopologySpread),
    ("StorageCapacityScoring", True, VolumeBinding, CapacityScoringVolumeBinding),
    ("TaintTolerationComparisonOperators", True, PodTopologySpread, ComparingPodTopologySpread),
    ("TaintTolerationComparisonOperators", True, TaintToleration, ComparingTaintToleration),
)
"""A feature gate, whether it is on, a plugin, and the class of it that takes its place then; of several, one that is
all of them. NodeUnschedulable needs no form that compares tolerations: the taint that it asks about has an empty value,
which no comparison matches."""

BEHIND_GATES: tuple[tuple[str, type[Plugin]], ...] = (
    ("GangScheduling", GangScheduling),
    ("TopologyAwareWorkloadScheduling", TopologyPlacementGenerator),
    ("TopologyAwareWorkloadScheduling", PodGroupPodsCount),
)
"""A feature gate, and a plugin that is a default while it is on. A profile may name it without the gate, too."""


def registry(added: Iterable[type[Plugin]] = (), gates: FeatureGates | None = None) -> Mapping[str, type[Plugin]]:
    """Plugin name → its class: the built-in ones in order, in their form for the gates, then those added.

    Raises ConfigurationError if two plugins have the same name.
    """
    built_in = [_form_of(plugin, gates) for plugin in BUILT_IN]
    gated = [plugin for gate, plugin in BEHIND_GATES if gates is not None and gates.enabled(gate)]
    by_name: dict[str, type[Plugin]] = {}
    for plugin in (*built_in, *gated, *added):
        if plugin.name in by_name:
            raise ConfigurationError([Fault("", f"a plugin named {plugin.name} already exists")])
        by_name[plugin.name] = plugin
    return by_name


def _form_of(plugin: type[Plugin], gates: FeatureGates | None) -> type[Plugin]:
    forms = [
        form for gate, is_on, of, form in FORMS if of is plugin and gates is not None and gates.enabled(gate) is is_on
    ]
    return type(plugin.__name__, tuple(forms), {}) if len(forms) > 1 else next(iter(forms), plugin)


def switched_off(gates: FeatureGates) -> Mapping[str, type[Plugin]]:
    """The built-in plugins that are no defaults since their gates are off, by name."""
    return {plugin.name: plugin for gate, plugin in BEHIND_GATES if not gates.enabled(gate)}
