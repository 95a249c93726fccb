"""matchAttribute and distinctAttribute while a search takes and gives back devices.

Source: docs/kube-scheduler/dra.md §6.5.
"""

from __future__ import annotations

from typing import Protocol

from scheduler.cluster.devices.descriptions import AttributeValue, attribute_of
from scheduler.cluster.devices.slices import SliceDevice
from scheduler.objects.resource_claims import DeviceConstraint
from scheduler.plugins.devices.requests import ClaimNeeds, Need


class Constraint(Protocol):
    def add(self, need: Need, device: SliceDevice) -> bool:
        """Whether the device may be taken; if so it counts from now on."""
        ...

    def remove(self, need: Need, device: SliceDevice) -> None:
        """Count a device that was added no longer."""
        ...


class _Applying:
    """Which requests a constraint is about."""

    def __init__(self, requests: tuple[str, ...]) -> None:
        self._requests = frozenset(requests)

    def concerns(self, need: Need) -> bool:
        return not self._requests or need.parent in self._requests or need.name in self._requests


class _Match(_Applying):
    """All devices have one value."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        super().__init__(constraint.requests)
        self._attribute = constraint.match_attribute or ""
        self._value: AttributeValue | None = None
        self._count = 0

    def add(self, need: Need, device: SliceDevice) -> bool:
        if not self.concerns(need):
            return True
        value = attribute_of(device.id[0], device.fields, self._attribute)
        if value is None or (self._count and value != self._value):
            return False
        self._value = value
        self._count += 1
        return True

    def remove(self, need: Need, device: SliceDevice) -> None:
        if self.concerns(need):
            self._count -= 1


class _Distinct(_Applying):
    """No device has a value that is remembered. As in kube-scheduler 1.36 one value a request is: its last device's,
    and none after that device was given back."""

    def __init__(self, constraint: DeviceConstraint) -> None:
        super().__init__(constraint.requests)
        self._attribute = constraint.distinct_attribute or ""
        self._values: dict[str, AttributeValue] = {}
        self._count = 0

    def add(self, need: Need, device: SliceDevice) -> bool:
        if not self.concerns(need):
            return True
        value = attribute_of(device.id[0], device.fields, self._attribute)
        if value is None or (self._count and value in self._values.values()):
            return False
        self._values[need.parent] = value
        self._count += 1
        return True

    def remove(self, need: Need, device: SliceDevice) -> None:
        if self.concerns(need):
            self._values.pop(need.parent, None)
            self._count -= 1


class Constraints:
    """All constraints of a claim."""

    def __init__(self, claim: ClaimNeeds) -> None:
        self._constraints: list[Constraint] = [
            _Match(one) if one.match_attribute is not None else _Distinct(one) for one in claim.constraints
        ]

    def add(self, need: Need, device: SliceDevice) -> bool:
        """Whether the device may be taken; if not, nothing has changed but what undoing forgets."""
        for number, constraint in enumerate(self._constraints):
            if not constraint.add(need, device):
                for earlier in self._constraints[:number]:
                    earlier.remove(need, device)
                return False
        return True

    def remove(self, need: Need, device: SliceDevice) -> None:
        for constraint in self._constraints:
            constraint.remove(need, device)
