"""What drivers say of the devices of a claim."""

from __future__ import annotations

from scheduler.objects.meta import Condition
from scheduler.objects.resource_claims import (
    AllocatedDeviceStatus,
    Allocation,
    DeviceAllocation,
    DeviceResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from scheduler.plugins.devices.allocated import Readiness, readiness


def share(share_id: str) -> DeviceResult:
    return DeviceResult(
        request="r",
        driver="gpu.example.com",
        pool="n1",
        device="gpu-0",
        share_id=share_id,
        binding_conditions=("Attached",),
        binding_failure_conditions=("Broken",),
    )


def said(share_id: str, *conditions: str) -> AllocatedDeviceStatus:
    true = tuple([Condition(type=name, status="True") for name in conditions])
    return AllocatedDeviceStatus(
        driver="gpu.example.com", pool="n1", device="gpu-0", share_id=share_id, conditions=true
    )


def state_of(*statuses: AllocatedDeviceStatus) -> Readiness:
    allocation = Allocation(devices=DeviceAllocation(results=(share("one"), share("two"))))
    claim = ResourceClaim(status=ResourceClaimStatus(allocation=allocation, devices=statuses))
    return readiness(claim, allocation)[0]


def test_each_share_of_a_device_is_ready_by_what_is_said_of_it() -> None:
    assert state_of(said("one", "Attached")) is Readiness.WAITING
    assert state_of(said("one", "Attached"), said("two")) is Readiness.WAITING
    assert state_of(said("one", "Attached"), said("two", "Broken")) is Readiness.FAILED
    assert state_of(said("two", "Attached"), said("one", "Attached")) is Readiness.READY
