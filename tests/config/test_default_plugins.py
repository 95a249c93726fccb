"""The default plugins against kube-scheduler 1.36's: docs/kube-scheduler/config.md §4.1."""

from __future__ import annotations

from scheduler.config.default_plugins import default_plugins
from scheduler.config.feature_gates import FeatureGates

OF_KUBE_SCHEDULER = """
SchedulingGates PrioritySort NodeUnschedulable NodeName TaintToleration:3 NodeAffinity:2 NodePorts NodeResourcesFit:1
VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread:2 InterPodAffinity:2 DynamicResources:2
DefaultPreemption NodeResourcesBalancedAllocation:1 ImageLocality:1 DefaultBinder NodeDeclaredFeatures
"""


def test_the_default_plugins_are_those_of_kube_scheduler_with_its_weights_in_its_order() -> None:
    enabled = default_plugins(FeatureGates()).multi_point.enabled
    stated = [f"{entry.name}:{entry.weight}" if entry.weight else entry.name for entry in enabled]
    assert stated == OF_KUBE_SCHEDULER.split()
