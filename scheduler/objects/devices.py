"""Devices as drivers publish them (ResourceSlice) and as administrators group them (DeviceClass).

Only what a decision reads, plus what an allocation repeats (``config``).
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.objects.meta import ApiObject, ApiStruct
from scheduler.objects.node import Taint
from scheduler.objects.selector_fields import NodeSelectorFields

IMPLICIT_EXTENDED_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Followed by a class's name: the extended resource that every class stands for."""

Quantity = str | int | float


# --- classes ----------------------------------------------------------------------------------------------------------


class CelSelector(ApiStruct, frozen=True):
    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True):
    """``cel`` is None for a kind of selector that Kubernetes 1.36 does not have."""

    cel: CelSelector | None = None


class DeviceConfiguration(ApiStruct, frozen=True):
    """Parameters for a driver, passed on unread."""

    requests: tuple[str, ...] = ()
    opaque: dict[str, Any] | None = None


class DeviceClassSpec(ApiStruct, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiObject, frozen=True):
    """A class of devices. An extended resource it maps may be given by devices instead of by the node's allocatable."""

    spec: DeviceClassSpec = DeviceClassSpec()

    @property
    def implicit_resource_name(self) -> str:
        return IMPLICIT_EXTENDED_RESOURCE_PREFIX + self.metadata.name


# --- slices -----------------------------------------------------------------------------------------------------------


class ResourcePool(ApiStruct, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class DeviceAttribute(ApiStruct, frozen=True):
    """Exactly one of the plain fields is set. The plural ones need the gate DRAListTypeAttributes."""

    string: str | None = None
    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None
    strings: tuple[str, ...] | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRange(ApiStruct, frozen=True):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityPolicy(ApiStruct, frozen=True):
    """What requests for a part of a capacity are rounded to, and what they must keep to."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(ApiStruct, frozen=True):
    value: Quantity = 0
    request_policy: CapacityPolicy | None = None


class Counter(ApiStruct, frozen=True):
    value: Quantity = 0


class CounterConsumption(ApiStruct, frozen=True):
    """What a device takes of a counter set of its pool."""

    counter_set: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class CounterSet(ApiStruct, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class Device(ApiStruct, frozen=True):
    """``node_name``, ``node_selector`` and ``all_nodes`` count only in slices with per-device node selection."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelectorFields | None = None
    all_nodes: bool | None = None
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourceSliceSpec(ApiStruct, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelectorFields | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiObject, frozen=True):
    """A part of a pool of devices; the pool's slices of one generation make it up together."""

    spec: ResourceSliceSpec = ResourceSliceSpec()
