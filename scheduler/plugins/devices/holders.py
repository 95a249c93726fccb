"""What claims hold of the devices of a pool, as a search asks about it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple, Protocol

from scheduler.cluster.devices.slices import Amounts, PoolKey


class PoolHoldings(NamedTuple):
    """What claims hold of a pool. ``taken``: names of the devices of which a claim has all. ``shared``: device → what
    its shares consume together."""

    taken: Set[str] | Mapping[str, str]
    shared: dict[str, Amounts]


class Holders(Protocol):
    """Which devices other claims hold."""

    def of_pool(self, pool: PoolKey) -> PoolHoldings: ...


class _NothingHeld:
    """Every device is free."""

    @staticmethod
    def of_pool(pool: PoolKey) -> PoolHoldings:
        return PoolHoldings(frozenset(), {})


NOTHING_HELD: Holders = _NothingHeld()
