"""Node: allocatable resources, images, conditions and taints of a machine."""

from __future__ import annotations

import msgspec

from scheduler.objects.meta import ApiObject, ApiStruct, Condition
from scheduler.objects.quantity import Quantities


class Taint(ApiStruct, frozen=True):
    """A taint. Hashable; `time_added` is part of equality, as in kube-scheduler's comparison of nodes."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class ContainerImage(ApiStruct, frozen=True):
    """An image on the node's disk with all its names; the size is in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeSpec(ApiStruct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(ApiStruct, frozen=True):
    allocatable: Quantities = msgspec.field(default_factory=dict)
    capacity: Quantities = msgspec.field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiObject, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.spec.taints

    @property
    def unschedulable(self) -> bool:
        return self.spec.unschedulable
