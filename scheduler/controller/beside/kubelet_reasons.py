"""Why a kubelet does not admit a pod, and to which pods that matters: one table of the reasons of Kubernetes 1.36.

A kubelet's reasons are the ``status.reason`` of a pod that failed before it began. Those of the node's room, ports or
state would meet the next pod as well. Those of the workload would meet other pods of the same controller only: one bad
workload must not take nodes away from all others.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

ROOM_PREFIX: Final = "OutOf"
"""Followed by the resource: ``OutOfcpu``, ``OutOfpods``, ``OutOfexample.com/gpu``."""


class Concern(enum.Enum):
    NODE = "node"
    """All pods: the node has no room, or takes no pods now."""
    WORKLOAD = "workload"
    """Pods of the same controller."""


CONCERN_OF: Final[Mapping[str, Concern]] = {
    # The predicates that kubelet and scheduler share; the two may differ where one has seen less than the other.
    "NodePorts": Concern.NODE,
    "NodeAffinity": Concern.WORKLOAD,
    "NodeName": Concern.WORKLOAD,
    "TaintToleration": Concern.WORKLOAD,
    # The state of the node.
    "InvalidNodeInfo": Concern.NODE,
    "NodeShutdown": Concern.NODE,
    "VolumeAttachmentLimitExceeded": Concern.NODE,
    # What the pod asks of the node's devices, processors and memory banks.
    "EmptyPodSharedPoolError": Concern.WORKLOAD,
    "SMTAlignmentError": Concern.WORKLOAD,
    "TopologyAffinityError": Concern.WORKLOAD,
    "UnexpectedAdmissionError": Concern.WORKLOAD,
    # What the pod asks of the kubelet or its operating system.
    "AppArmor": Concern.WORKLOAD,
    "InitContainerRestartPolicyForbidden": Concern.WORKLOAD,
    "PodFeatureUnsupported": Concern.WORKLOAD,
    "PodLevelResourcesNotSupported": Concern.WORKLOAD,
    "PodOSNotSupported": Concern.WORKLOAD,
    "PodOSSelectorNodeLabelDoesNotMatch": Concern.WORKLOAD,
    "SupplementalGroupsPolicyNotSupported": Concern.WORKLOAD,
    "SysctlForbidden": Concern.WORKLOAD,
    # A kubelet that can't say more.
    "UnexpectedPredicateFailureType": Concern.WORKLOAD,
    "UnknownReason": Concern.WORKLOAD,
}
"""``Evicted`` is missing on purpose: a node under pressure has a taint that says so."""


def concern_of(reason: str) -> Concern | None:
    """None: not a reason of a kubelet that did not admit the pod."""
    return Concern.NODE if reason.startswith(ROOM_PREFIX) else CONCERN_OF.get(reason)
