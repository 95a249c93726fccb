"""NodeResourcesFit's queueing hints (docs/kube-scheduler/plugins.md §3.8).

A node that has nothing of an extended resource for which a DeviceClass stands is left to DynamicResources, as in the
filter.
"""

from __future__ import annotations

from collections.abc import Hashable

from scheduler.cluster.devices.extended_resources import ClassesByResource
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Hint
from scheduler.objects.devices import DeviceClass
from scheduler.objects.node import Node
from scheduler.objects.resources import ResourceVector, allocatable_of

_NO_CLASSES = ClassesByResource()


def pod_left_or_shrank(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    """The hint for a pod that was deleted or requests less."""
    if new is None:
        held_room = old is not None and (old.node_name or old.pod.status.nominated_node_name)
        return Hint.QUEUE if held_room else Hint.SKIP
    if new.uid == pod.uid:
        return Hint.QUEUE
    if old is None or not new.node_name:
        return Hint.SKIP
    return Hint.QUEUE if _some_needed_amount_grew(pod.charged, new.charged, old.charged) else Hint.SKIP


def node_has_more_room(
    pod: PodInfo, old: Node | None, new: Node | None, classes: ClassesByResource = _NO_CLASSES
) -> Hint:
    """The hint for a node that was added or changed its allocatable resources.

    One to which a resource may come as devices counts as larger after any such change, as in kube-scheduler 1.36.
    """
    if new is None:
        return Hint.SKIP
    needed, after = pod.requests, allocatable_of(new)
    as_devices = _needed_as_devices(needed, after, classes)
    if not _fits_when_empty(needed, after, as_devices):
        return Hint.SKIP
    if old is None or as_devices:
        return Hint.QUEUE
    before = allocatable_of(old)
    is_larger = after.pods > before.pods or _some_needed_amount_grew(needed, before, after)
    return Hint.QUEUE if is_larger else Hint.SKIP


def facet_of_pod(other: PodInfo) -> Hashable:
    """All that ``pod_left_or_shrank`` looks at of another pod."""
    return bool(other.node_name), bool(other.pod.status.nominated_node_name), other.charged.key


def facet_of_node(node: Node) -> Hashable:
    """All that ``node_has_more_room`` looks at: nodes of one size wake the same pods."""
    return allocatable_of(node).key


def class_maps_a_request(pod: PodInfo, old: DeviceClass | None, new: DeviceClass | None) -> Hint:
    """The hint for a DeviceClass that was added or changed its extended resource."""
    if new is None:
        return Hint.SKIP
    name = new.spec.extended_resource_name
    if old is not None and old.spec.extended_resource_name == name:
        return Hint.SKIP
    wanted = pod.requests.scalars
    is_wanted = (name is not None and name in wanted) or (old is None and new.implicit_resource_name in wanted)
    return Hint.QUEUE if is_wanted else Hint.SKIP


def _needed_as_devices(needed: ResourceVector, offered: ResourceVector, classes: ClassesByResource) -> frozenset[str]:
    """The resources that a DeviceClass stands for and the node has nothing of."""
    mapped = classes.mapped(needed.scalars)
    return frozenset([name for name in mapped if needed.scalars[name] and offered.scalars.get(name, 0) <= 0])


def _fits_when_empty(needed: ResourceVector, offered: ResourceVector, as_devices: frozenset[str]) -> bool:
    """Whether the request but for ``as_devices`` fits the empty node.

    Ignored resources count here, as in kube-scheduler 1.36.
    """
    return (
        offered.pods >= 1
        and (needed.milli_cpu <= 0 or needed.milli_cpu <= offered.milli_cpu)
        and (needed.memory <= 0 or needed.memory <= offered.memory)
        and (needed.ephemeral_storage <= 0 or needed.ephemeral_storage <= offered.ephemeral_storage)
        and all(
            not amount or name in as_devices or amount <= offered.scalars.get(name, 0)
            for name, amount in needed.scalars.items()
        )
    )


def _some_needed_amount_grew(needed: ResourceVector, before: ResourceVector, after: ResourceVector) -> bool:
    return bool(
        (needed.milli_cpu and after.milli_cpu > before.milli_cpu)
        or (needed.memory and after.memory > before.memory)
        or (needed.ephemeral_storage and after.ephemeral_storage > before.ephemeral_storage)
        or any(
            amount and after.scalars.get(name, 0) > before.scalars.get(name, 0)
            for name, amount in needed.scalars.items()
        )
    )
