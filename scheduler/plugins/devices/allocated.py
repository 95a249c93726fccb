"""Claims that have their devices already: where they can be used, and whether they are ready.

Source: docs/kube-scheduler/dra.md §5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from scheduler.objects.meta import Condition
from scheduler.objects.resource_claims import Allocation, DeviceResult, ResourceClaim
from scheduler.objects.timestamps import parse_time


class Readiness(Enum):
    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


def readiness(claim: ResourceClaim, allocation: Allocation) -> tuple[Readiness, Condition | None]:
    """What the drivers say of the devices that have binding conditions; with the condition that failed. As in
    kube-scheduler 1.36 the first device that is not ready decides: what is said of later ones does not count yet."""
    for result in _conditional(allocation):
        conditions = _conditions(claim, result)
        for name in result.binding_failure_conditions:
            condition = conditions.get(name)
            if condition is not None and condition.status == "True":
                return Readiness.FAILED, condition
        for name in result.binding_conditions:
            condition = conditions.get(name)
            if condition is None or condition.status != "True":
                return Readiness.WAITING, None
    return Readiness.READY, None


def has_conditions(allocation: Allocation) -> bool:
    return any(True for _ in _conditional(allocation))


def is_given_up(claim: ResourceClaim, allocation: Allocation, timeout_nanoseconds: int, now_nanoseconds: int) -> bool:
    """Whether a device of the claim failed, or was not ready in time: the claim is of no use on any node."""
    state, _ = readiness(claim, allocation)
    if state is Readiness.FAILED:
        return True
    return state is Readiness.WAITING and is_late(allocation, timeout_nanoseconds, now_nanoseconds)


def is_late(allocation: Allocation, timeout_nanoseconds: int, now_nanoseconds: int) -> bool:
    if allocation.allocation_timestamp is None:
        return False
    return parse_time(allocation.allocation_timestamp) + timeout_nanoseconds < now_nanoseconds


def _conditional(allocation: Allocation) -> Iterator[DeviceResult]:
    return (result for result in allocation.devices.results if result.binding_conditions)


def _conditions(claim: ResourceClaim, result: DeviceResult) -> Mapping[str, Condition]:
    for status in claim.status.devices:
        same = (status.driver, status.pool, status.device) == result.device_id
        if same and (result.share_id is None or status.share_id is None or status.share_id == result.share_id):
            return {condition.type: condition for condition in status.conditions}
    return {}
