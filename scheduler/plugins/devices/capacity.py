"""How much of a device's capacities a request takes (docs/kube-scheduler/dra.md §6.8)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.cluster.devices.slices import Amounts
from scheduler.objects.devices import CapacityPolicy, CapacityRange, Device, DeviceCapacity
from scheduler.objects.quantity import NANO, parse, value
from scheduler.plugins.devices.requests import Need


def consumption(need: Need, device: Device) -> Amounts | None:
    """Nano-units by capacity that the request would consume; None where it asks for something that the device does not
    offer."""
    requested = {name: (nanos, written) for name, nanos, written in need.capacity}
    if any(name not in device.capacity for name in requested):
        return None
    consumed: Amounts = {}
    for name, capacity in device.capacity.items():
        amount, _ = _consumed(requested.get(name), capacity)
        policy = capacity.request_policy
        if amount > parse(capacity.value) or (policy is not None and not _keeps_to(amount, policy)):
            return None
        consumed[name] = amount
    return consumed


def written_consumption(need: Need, device: Device) -> dict[str, str | int | float]:
    """The same as quantities, in the form in which kube-scheduler 1.36 writes them."""
    requested = {name: (nanos, written) for name, nanos, written in need.capacity}
    return {name: _consumed(requested.get(name), capacity)[1] for name, capacity in device.capacity.items()}


def leaves_room(device: Device, consumed: Amounts, *held: Mapping[str, int]) -> bool:
    """Whether the device has so much left beside what is held."""
    for name, amount in consumed.items():
        total = amount + sum(one.get(name, 0) for one in held)
        if total > parse(device.capacity[name].value):
            return False
    return True


Stated = tuple[int, str]
"""Nano-units, and how they are written."""


def _stated(written: str | int | float) -> Stated:
    return parse(written), str(written)


def _consumed(requested: Stated | None, capacity: DeviceCapacity) -> Stated:
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return _stated(capacity.value if default is None else default)
    return requested if policy is None else _rounded(requested, policy)


def _rounded(requested: Stated, policy: CapacityPolicy) -> Stated:
    within = policy.valid_range
    if within is not None and within.min is not None:
        least = parse(within.min)
        if requested[0] < least:
            return _stated(within.min)
        step = value(parse(within.step)) if within.step is not None else 0
        if step <= 0:
            return requested
        steps = -(-(value(requested[0]) - value(least)) // step)
        units = value(least) + steps * step
        return units * NANO, _binary(units)
    for one in sorted(map(_stated, policy.valid_values)):
        if one[0] >= requested[0]:
            return one
    return requested


_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def _binary(units: int) -> str:
    """The amount with the largest binary suffix that leaves a whole number."""
    place = 0
    while units and units % 1024 == 0 and place < len(_SUFFIXES) - 1:
        units, place = units // 1024, place + 1
    return f"{units}{_SUFFIXES[place]}"


def _keeps_to(amount: int, policy: CapacityPolicy) -> bool:
    if policy.default is not None and amount == parse(policy.default):
        return True
    if policy.valid_range is not None:
        return _in_range(amount, policy.valid_range)
    if policy.valid_values:
        return amount in set(map(parse, policy.valid_values))
    return True


def _in_range(amount: int, within: CapacityRange) -> bool:
    if within.max is not None and amount > parse(within.max):
        return False
    if within.step is not None and within.min is not None:
        step = value(parse(within.step))
        return step <= 0 or (value(amount) - value(parse(within.min))) % step == 0
    return True
