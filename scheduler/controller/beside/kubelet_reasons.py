"""The kubelet's reasons for not admitting a pod in Kubernetes 1.36, and the pods that each reason affects.

The reason is the ``status.reason`` of a pod that failed before it started. Reasons of the node's resources, ports or
state affect the next pod as well. Reasons of the workload affect only other pods of the same controller: one faulty
workload must not exclude nodes for all others.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

ROOM_PREFIX: Final = "OutOf"
"""Prefix, followed by the resource: ``OutOfcpu``, ``OutOfpods``, ``OutOfexample.com/gpu``."""


class Concern(enum.Enum):
    NODE = "node"
    """All pods: the node has no room, or accepts no pods now."""
    WORKLOAD = "workload"
    """Pods of the same controller."""


CONCERN_OF: Final[Mapping[str, Concern]] = {
    # The predicates that kubelet and scheduler share; their results differ if one has observed less than the other.
    "NodePorts": Concern.NODE,
    "NodeAffinity": Concern.WORKLOAD,
    "NodeName": Concern.WORKLOAD,
    "TaintToleration": Concern.WORKLOAD,
    # The state of the node.
    "InvalidNodeInfo": Concern.NODE,
    "NodeShutdown": Concern.NODE,
    "VolumeAttachmentLimitExceeded": Concern.NODE,
    # The pod's requirements on the node's devices, processors and memory banks.
    "EmptyPodSharedPoolError": Concern.WORKLOAD,
    "SMTAlignmentError": Concern.WORKLOAD,
    "TopologyAffinityError": Concern.WORKLOAD,
    "UnexpectedAdmissionError": Concern.WORKLOAD,
    # The pod's requirements on the kubelet or its operating system.
    "AppArmor": Concern.WORKLOAD,
    "InitContainerRestartPolicyForbidden": Concern.WORKLOAD,
    "PodFeatureUnsupported": Concern.WORKLOAD,
    "PodLevelResourcesNotSupported": Concern.WORKLOAD,
    "PodOSNotSupported": Concern.WORKLOAD,
    "PodOSSelectorNodeLabelDoesNotMatch": Concern.WORKLOAD,
    "SupplementalGroupsPolicyNotSupported": Concern.WORKLOAD,
    "SysctlForbidden": Concern.WORKLOAD,
    # The kubelet's general reason.
    "UnexpectedPredicateFailureType": Concern.WORKLOAD,
    "UnknownReason": Concern.WORKLOAD,
}
"""``Evicted`` is left out on purpose: a node under pressure has a taint."""


def concern_of(reason: str) -> Concern | None:
    """The pods that a reason affects; None if it is not a reason for refusing admission."""
    return Concern.NODE if reason.startswith(ROOM_PREFIX) else CONCERN_OF.get(reason)
