"""All APIs that name groups. One that is added here is read where its gate or setting is on.

``group_key`` goes by all of them, on or off: queueing hints are functions of pods alone.
"""

from __future__ import annotations

from scheduler.cluster.groups.coscheduling import name_in_coscheduling
from scheduler.cluster.groups.v1alpha2 import name_in_v1alpha2
from scheduler.cluster.pod_info import PodInfo

_NAMES = (name_in_v1alpha2, name_in_coscheduling)


def group_key(pod: PodInfo) -> str:
    """``namespace/name`` of the pod's group, in the first API in which the pod names one; "" without one."""
    for name_in in _NAMES:
        name = name_in(pod.pod)
        if name:
            return f"{pod.namespace}/{name}"
    return ""
