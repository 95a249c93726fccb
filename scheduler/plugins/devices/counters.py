"""Counters that the devices of a pool share (docs/kube-scheduler/dra.md §6.7)."""

from __future__ import annotations

from collections.abc import Callable, Container

from scheduler.cluster.devices.pools import Pool
from scheduler.cluster.devices.slices import Amounts, PoolKey, SliceDevice

Sets = dict[str, Amounts]


class Counters:
    """What is left of the counters, and what a search takes of them.

    Both go by the pool's name without its driver, as in kube-scheduler 1.36: of two pools of one name the counters of
    the one that is asked first hold for both.
    """

    def __init__(self, consuming: Callable[[PoolKey], Container[str]]) -> None:
        """``consuming``: the names of a pool's devices that are allocated, whole or in shares."""
        self._consuming = consuming
        self._available: dict[str, Sets] = {}
        self._taken: dict[str, Sets] = {}

    def take(self, pool: Pool, device: SliceDevice) -> bool:
        """Whether all counters of the pool suffice with the device; if so it is counted from now on."""
        name = pool.key[1]
        available = self._available.get(name)
        if available is None:
            available = self._available[name] = self._left_in(pool)
        taken = self._taken.setdefault(name, {})
        _add(taken, device, 1)
        for counter_set, counters in available.items():
            used = taken.get(counter_set, {})
            for counter, amount in counters.items():
                if used.get(counter, 0) > amount:
                    _add(taken, device, -1)
                    return False
        return True

    def give_back(self, pool: Pool, device: SliceDevice) -> None:
        _add(self._taken[pool.key[1]], device, -1)

    def _left_in(self, pool: Pool) -> Sets:
        left = {name: dict(counters) for name, counters in pool.counter_sets.items()}
        consuming = self._consuming(pool.key)
        for device in pool.consumers:
            if device.id[2] not in consuming:
                continue
            for counter_set, consumed in device.consumes.items():
                counters = left.get(counter_set)
                if counters is None:
                    continue
                for counter, amount in consumed.items():
                    if counter in counters:
                        counters[counter] -= amount
        return left


def _add(sets: Sets, device: SliceDevice, sign: int) -> None:
    for counter_set, consumed in device.consumes.items():
        counters = sets.setdefault(counter_set, {})
        for counter, amount in consumed.items():
            counters[counter] = counters.get(counter, 0) + sign * amount
