"""Which devices are given to claims, whole or in shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.cluster.devices.slices import Amounts, DeviceId, PoolKey
from scheduler.objects.quantity import InvalidQuantity, parse
from scheduler.objects.resource_claims import Allocation, DeviceResult


class Holdings:
    """Devices that allocations name. Devices given for administration are not counted.

    A set, as in kube-scheduler 1.36: where two claims name one device, it is free when either gives it up.
    """

    __slots__ = ("_shares", "_taken")

    def __init__(self) -> None:
        self._taken: dict[PoolKey, dict[str, str]] = {}
        """Pool → device → who has it, for people."""
        self._shares: dict[PoolKey, dict[str, dict[str, Amounts]]] = {}
        """Pool → device → share → what it consumes."""

    def add(self, holder: str, allocation: Allocation) -> tuple[PoolKey, ...]:
        """The pools concerned."""
        results = list(_counted(allocation))
        for result in results:
            pool = (result.driver, result.pool)
            if result.share_id is None:
                self._taken.setdefault(pool, {})[result.device] = holder
            else:
                shares = self._shares.setdefault(pool, {}).setdefault(result.device, {})
                shares[result.share_id] = consumed_by(result)
        return _pools(results)

    def remove(self, allocation: Allocation) -> tuple[PoolKey, ...]:
        """The pools concerned."""
        results = list(_counted(allocation))
        for result in results:
            pool = (result.driver, result.pool)
            if result.share_id is None:
                _drop(self._taken, pool, result.device)
                continue
            shares = self._shares.get(pool, {}).get(result.device)
            if shares is not None:
                shares.pop(result.share_id, None)
                if not shares:
                    _drop(self._shares, pool, result.device)
        return _pools(results)

    def taken_in(self, pool: PoolKey) -> dict[str, str]:
        """Device → who has all of it. Do not change it."""
        return self._taken.get(pool, {})

    def shares_in(self, pool: PoolKey) -> dict[str, dict[str, Amounts]]:
        """Device → share → what it consumes. Do not change it."""
        return self._shares.get(pool, {})

    def copy(self) -> Holdings:
        other = Holdings()
        other._taken = {pool: dict(devices) for pool, devices in self._taken.items()}
        other._shares = {
            pool: {device: dict(shares) for device, shares in devices.items()} for pool, devices in self._shares.items()
        }
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Holdings):
            return NotImplemented
        devices = {pool: set(names) for pool, names in self._taken.items()}
        return devices == {pool: set(names) for pool, names in other._taken.items()} and self._shares == other._shares

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __iter__(self) -> Iterator[DeviceId]:
        for (driver, pool), devices in self._taken.items():
            for device in devices:
                yield driver, pool, device


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


def _pools(results: Iterable[DeviceResult]) -> tuple[PoolKey, ...]:
    return tuple(dict.fromkeys((result.driver, result.pool) for result in results))


def _drop(index: dict[PoolKey, dict[str, object]] | dict, pool: PoolKey, device: str) -> None:  # type: ignore[type-arg]  # either map
    devices = index.get(pool)
    if devices is not None:
        devices.pop(device, None)
        if not devices:
            del index[pool]
