"""The default plugins: kube-scheduler 1.36's list, order and weights."""

from __future__ import annotations

from typing import Final

from scheduler.config.feature_gates import FeatureGates
from scheduler.config.points import PluginEntry, Plugins, PluginSet

_DEFAULTS: Final = (
    PluginEntry("SchedulingGates"),
    PluginEntry("PrioritySort"),
    PluginEntry("NodeUnschedulable"),
    PluginEntry("NodeName"),
    # Tripled and doubled: explicit requests of users count more than spreading the load.
    PluginEntry("TaintToleration", 3),
    PluginEntry("NodeAffinity", 2),
    PluginEntry("NodePorts"),
    PluginEntry("NodeResourcesFit", 1),
    PluginEntry("VolumeRestrictions"),
    PluginEntry("NodeVolumeLimits"),
    PluginEntry("VolumeBinding"),
    PluginEntry("VolumeZone"),
    PluginEntry("PodTopologySpread", 2),
    PluginEntry("InterPodAffinity", 2),
    PluginEntry("DynamicResources", 2),
    PluginEntry("DefaultPreemption"),
    PluginEntry("NodeResourcesBalancedAllocation", 1),
    PluginEntry("ImageLocality", 1),
    PluginEntry("DefaultBinder"),
)
_BEHIND_GATES: Final = (
    ("NodeDeclaredFeatures", PluginEntry("NodeDeclaredFeatures")),
    ("GangScheduling", PluginEntry("GangScheduling")),
    ("TopologyAwareWorkloadScheduling", PluginEntry("TopologyPlacementGenerator")),
    ("TopologyAwareWorkloadScheduling", PluginEntry("PodGroupPodsCount", 1)),
)
"""Feature gates, each with a plugin that is a default while it is on, in the order in which they are appended."""

GATE_OF: Final = {entry.name: gate for gate, entry in _BEHIND_GATES}
"""Plugin → the feature gate without which it is no default."""

BUILT_IN_NAMES: Final = frozenset(entry.name for entry in (*_DEFAULTS, *(entry for _, entry in _BEHIND_GATES)))
"""The names of all built-in plugins; no other plugin may have one of these."""


def default_plugins(gates: FeatureGates) -> Plugins:
    """The default plugin sets: everything is in ``multi_point``."""
    added = tuple(entry for gate, entry in _BEHIND_GATES if gates.enabled(gate))
    return Plugins(multi_point=PluginSet(enabled=_DEFAULTS + added))
