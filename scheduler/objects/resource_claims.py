"""ResourceClaim: devices that pods ask for, and which ones they got."""

from __future__ import annotations

import msgspec

from scheduler.objects.devices import DeviceConfiguration, DeviceSelector
from scheduler.objects.meta import ApiObject, ApiStruct, Condition, controller_of
from scheduler.objects.pod import Toleration
from scheduler.objects.quantity import Quantities
from scheduler.objects.selector_fields import NodeSelectorFields

CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
"""On a claim while it has devices."""

EXTENDED_RESOURCE_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""``true`` on a claim that the scheduler made for a pod's extended resources."""

EXACT_COUNT = "ExactCount"
ALL = "All"


# --- what is asked for ------------------------------------------------------------------------------------------------


class CapacityRequirements(ApiStruct, frozen=True):
    requests: Quantities = msgspec.field(default_factory=dict)


class DeviceSubRequest(ApiStruct, frozen=True):
    """The fields that an exact request and an alternative of ``firstAvailable`` have in common."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(DeviceSubRequest, frozen=True):
    """``name`` is never set here: the request around it has one."""

    admin_access: bool = False


class DeviceRequest(ApiStruct, frozen=True):
    """Exactly one of ``exactly`` and ``first_available`` is set."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True):
    """``requests`` empty: all of the claim's."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(ApiStruct, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()


class ResourceClaimSpec(ApiStruct, frozen=True):
    devices: DeviceClaim = DeviceClaim()


# --- what was given ---------------------------------------------------------------------------------------------------


class DeviceResult(ApiStruct, frozen=True):
    """One device of an allocation. With ``share_id`` it holds a share of it, ``consumed_capacity``."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Quantities = msgspec.field(default_factory=dict)

    @property
    def device_id(self) -> tuple[str, str, str]:
        """(driver, pool, device)"""
        return self.driver, self.pool, self.device


class AllocatedConfiguration(ApiStruct, frozen=True):
    """``source`` is ``FromClass`` or ``FromClaim``."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: dict[str, object] | None = None


class DeviceAllocation(ApiStruct, frozen=True):
    results: tuple[DeviceResult, ...] = ()
    config: tuple[AllocatedConfiguration, ...] = ()


class Allocation(ApiStruct, frozen=True):
    """``node_selector`` None: usable on every node. ``allocation_timestamp``: RFC 3339."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelectorFields | None = None
    allocation_timestamp: str | None = None


class ClaimConsumer(ApiStruct, frozen=True):
    """The consumer that a claim is reserved for."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(ApiStruct, frozen=True):
    """What a driver says of a device of the claim."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(ApiStruct, frozen=True):
    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiObject, frozen=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def allocation(self) -> Allocation | None:
        return self.status.allocation

    def is_reserved_for(self, pod_uid: str) -> bool:
        return any(consumer.uid == pod_uid for consumer in self.status.reserved_for)

    def is_controlled_by(self, owner_uid: str) -> bool:
        """Whether it was made for this pod."""
        owner = controller_of(self.metadata)
        return owner is not None and owner.uid == owner_uid
