"""Devices allocated to claims, whole or in shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from scheduler.cluster.devices.slices import Amounts, DeviceId, PoolKey
from scheduler.cluster.forkable import ForkableDict
from scheduler.objects.quantity import InvalidQuantity, parse
from scheduler.objects.resource_claims import Allocation, DeviceResult


class Holdings:
    """Devices that allocations name. Devices given for administration are not counted.

    A device that two claims name is taken until both have given it up. In kube-scheduler 1.36 it is free when either
    does; but here a claim may be heard of again after its device was given to another one: answers to writes come
    before the watch, which may be late with what the claim was before it was deleted.
    """

    __slots__ = ("_others", "_shares", "_taken")

    def __init__(self) -> None:
        self._taken: ForkableDict[PoolKey, dict[str, str]] = ForkableDict()
        """Pool → device → the claim that has it."""
        self._others: ForkableDict[DeviceId, tuple[str, ...]] = ForkableDict()
        """Device → further claims that name it."""
        self._shares: ForkableDict[PoolKey, dict[str, dict[str, Amounts]]] = ForkableDict()
        """Pool → device → share → what it consumes."""

    def add(self, holder: str, allocation: Allocation) -> tuple[DeviceId, ...]:
        """Count the devices of a claim's allocation; returns those that it names."""
        results = list(_counted(allocation))
        for result in results:
            pool = (result.driver, result.pool)
            if result.share_id is None:
                first = _of_pool(self._taken, pool, dict).setdefault(result.device, holder)
                others = self._others.get(result.device_id, ())
                if first != holder and holder not in others:
                    self._others[result.device_id] = (*others, holder)
            else:
                shares = _of_pool(self._shares, pool, _copied).setdefault(result.device, {})
                shares[result.share_id] = consumed_by(result)
        return tuple([result.device_id for result in results])

    def remove(self, holder: str, allocation: Allocation) -> tuple[DeviceId, ...]:
        """Count the devices of a claim's allocation no longer; returns those that it names."""
        results = list(_counted(allocation))
        for result in results:
            pool = (result.driver, result.pool)
            if result.share_id is None:
                self._give_up(holder, pool, result)
            elif result.device in self.shares_in(pool):
                shares = self._shares.writable(pool, _copied)[result.device]
                shares.pop(result.share_id, None)
                if not shares:
                    _drop(self._shares, pool, result.device, _copied)
        return tuple([result.device_id for result in results])

    def _give_up(self, holder: str, pool: PoolKey, result: DeviceResult) -> None:
        others = self._others.get(result.device_id, ())
        left = [other for other in others if other != holder]
        if self.taken_in(pool).get(result.device) == holder:
            if left:
                self._taken.writable(pool, dict)[result.device] = left.pop(0)
            else:
                _drop(self._taken, pool, result.device, dict)
        if left:
            self._others[result.device_id] = tuple(left)
        elif others:
            del self._others[result.device_id]

    def taken_in(self, pool: PoolKey) -> dict[str, str]:
        """Device → who has all of it. Do not change it."""
        found: dict[str, str] = self._taken.get(pool, _NOTHING)
        return found

    def shares_in(self, pool: PoolKey) -> dict[str, dict[str, Amounts]]:
        """Device → share → what it consumes. Do not change it."""
        found: dict[str, dict[str, Amounts]] = self._shares.get(pool, _NOTHING)
        return found

    def fork(self) -> Holdings:
        """The same; neither side sees what the other changes."""
        other = Holdings()
        other._taken = self._taken.fork()
        other._shares = self._shares.fork()
        other._others = self._others.fork()
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Holdings):
            return NotImplemented
        return self._holders() == other._holders() and self._shares == other._shares

    def _holders(self) -> dict[DeviceId, set[str]]:
        """Device → the claims that name it, in whatever order they came."""
        return {
            (*pool, device): {first, *self._others.get((*pool, device), ())}
            for pool, devices in self._taken.items()
            for device, first in devices.items()
        }

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __iter__(self) -> Iterator[DeviceId]:
        for (driver, pool), devices in self._taken.items():
            for device in devices:
                yield driver, pool, device


def takes_the_same(one: Allocation, other: Allocation) -> bool:
    """Whether both hold the same devices and as much of them, in the same order."""
    results, others = list(_counted(one)), list(_counted(other))
    return len(results) == len(others) and all(
        first.device_id == second.device_id
        and first.share_id == second.share_id
        and consumed_by(first) == consumed_by(second)
        for first, second in zip(results, others, strict=True)
    )


def consumed_by(result: DeviceResult) -> Amounts:
    amounts: Amounts = {}
    for name, written in result.consumed_capacity.items():
        try:
            amounts[name] = parse(written)
        except InvalidQuantity:
            amounts[name] = 0
    return amounts


def _counted(allocation: Allocation) -> Iterator[DeviceResult]:
    return (result for result in allocation.devices.results if not result.admin_access)


_NOTHING: dict[Any, Any] = {}

InPool = TypeVar("InPool")


def _of_pool(
    index: ForkableDict[PoolKey, dict[str, InPool]],
    pool: PoolKey,
    copied: Callable[[dict[str, InPool]], dict[str, InPool]],
) -> dict[str, InPool]:
    """A pool's entries by device, for changing them."""
    if pool not in index:
        index[pool] = {}
    return index.writable(pool, copied)


def _drop(
    index: ForkableDict[PoolKey, dict[str, InPool]],
    pool: PoolKey,
    device: str,
    copied: Callable[[dict[str, InPool]], dict[str, InPool]],
) -> None:
    devices = index.writable(pool, copied)
    del devices[device]
    if not devices:
        del index[pool]


def _copied(shares: dict[str, dict[str, Amounts]]) -> dict[str, dict[str, Amounts]]:
    return {device: dict(of_device) for device, of_device in shares.items()}
