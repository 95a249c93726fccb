"""How much of a device's capacities a request takes (docs/kube-scheduler/dra.md §6.8)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.cluster.devices.slices import Amounts
from scheduler.objects.devices import CapacityPolicy, CapacityRange, Device, DeviceCapacity
from scheduler.objects.quantity import NANO, parse, value
from scheduler.plugins.devices.requests import Need


def consumption(need: Need, device: Device) -> Amounts | None:
    """Nano-units by capacity; None where the request asks for something that the device does not offer."""
    requested = {name: nanos for name, nanos, _ in need.capacity}
    if any(name not in device.capacity for name in requested):
        return None
    consumed: Amounts = {}
    for name, capacity in device.capacity.items():
        amount = _consumed(requested.get(name), capacity)
        if amount is None or amount > parse(capacity.value):
            return None
        consumed[name] = amount
    return consumed


def leaves_room(device: Device, consumed: Amounts, *held: Mapping[str, int]) -> bool:
    """Whether the device has so much left beside what is held."""
    for name, amount in consumed.items():
        total = amount + sum(one.get(name, 0) for one in held)
        if total > parse(device.capacity[name].value):
            return False
    return True


def written(nanos: int) -> str:
    """A quantity's text: whole units, or thousandths, or what it takes."""
    for scale, suffix in ((NANO, ""), (NANO // 1000, "m"), (NANO // 10**6, "u")):
        if nanos % scale == 0:
            return f"{nanos // scale}{suffix}"
    return f"{nanos}n"


def _consumed(requested: int | None, capacity: DeviceCapacity) -> int | None:
    policy = capacity.request_policy
    if requested is None:
        amount = parse(policy.default) if policy is not None and policy.default is not None else parse(capacity.value)
    elif policy is None:
        amount = requested
    else:
        amount = _rounded(requested, policy)
    return amount if policy is None or _keeps_to(amount, policy) else None


def _rounded(requested: int, policy: CapacityPolicy) -> int:
    within = policy.valid_range
    if within is not None and within.min is not None:
        least = parse(within.min)
        if requested < least:
            return least
        if within.step is None:
            return requested
        step = value(parse(within.step))
        if step <= 0:
            return requested
        steps = -(-(value(requested) - value(least)) // step)
        return (value(least) + steps * step) * NANO
    if policy.valid_values:
        return next((one for one in sorted(map(parse, policy.valid_values)) if one >= requested), requested)
    return requested


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
