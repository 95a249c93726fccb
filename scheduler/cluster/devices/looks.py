"""Numbers for rows whose devices look alike, so that one search answers for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.allocated import Holdings
from scheduler.cluster.devices.pools import Pool
from scheduler.cluster.devices.slices import PoolKey

MAX_LOOKS = 65_536
"""Different looks of nodes' devices, or of pools, that are numbered before all numbers are dropped; where nodes have
more than half of that at present, twice those."""
UNKNOWN = -1


PoolLook = tuple[Hashable, Hashable]
"""What a pool is, and what is held of it."""


class PoolLooks:
    """What one question about rows reads. ``pools_of``: by row, the pools that its node can reach, and its name."""

    __slots__ = ("holdings", "of_common", "of_pool", "pools_of")

    def __init__(self, pools_of: Callable[[int], tuple[tuple[Pool, ...], str]], holdings: tuple[Holdings, ...]) -> None:
        self.pools_of = pools_of
        self.holdings = holdings
        self.of_pool: dict[int, int] = {}
        """Number of the look by the identity of a pool that several nodes share: it is none of their own."""
        self.of_common: dict[int, int] = {}
        """Number of the look of all pools of a node, by identity, where nodes share all of them."""


class Looks:
    """The number of each row's look. ``version`` grows when numbers are given again, which voids answers by number."""

    def __init__(self, max_looks: int = MAX_LOOKS) -> None:
        self.version = 0
        self._max_looks = max_looks
        self._limit = max_looks
        self._contents: dict[bytes, int] = {}
        self._pool_numbers: dict[PoolLook, int] = {}
        self._bare_pools: dict[Hashable, int] = {}
        self._bare_of_pool: list[int] = []
        """By number of a pool's look, the number of what it is without what is held."""
        self._numbers: dict[tuple[int, ...], int] = {}
        """The numbers of a node's pools → that of its look; in order of the latter."""
        self._bare_numbers: dict[Hashable, int] = {}
        self._bare: list[int] = []
        """By number of a look, the number of what it is without what is held."""
        self._of_row: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._versions: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._common_version = UNKNOWN

    def fork(self) -> Looks:
        other = Looks(self._max_looks)
        other.version = self.version
        other._limit = self._limit
        other._contents = dict(self._contents)
        other._pool_numbers = dict(self._pool_numbers)
        other._bare_pools = dict(self._bare_pools)
        other._bare_of_pool = list(self._bare_of_pool)
        other._numbers = dict(self._numbers)
        other._bare_numbers = dict(self._bare_numbers)
        other._bare = list(self._bare)
        other._of_row = self._of_row.copy()
        other._versions = self._versions.copy()
        other._common_version = self._common_version
        return other

    def forget_if_crowded(self) -> None:
        """Keeps the numbers within the limit and those of one question. Those in use are counted only where there are
        twice as many as last time."""
        if self._count <= self._limit:
            return
        self._limit = max(self._max_looks, 2 * self._count_in_use())
        if self._count > self._limit:
            self._numbers.clear()
            self._pool_numbers.clear()
            self._bare_pools.clear()
            self._bare_of_pool.clear()
            self._bare_numbers.clear()
            self._bare.clear()
            self._contents.clear()
            self._versions[:] = UNKNOWN
            self.version += 1

    @property
    def _count(self) -> int:
        return max(len(self._numbers), len(self._pool_numbers))

    def _count_in_use(self) -> int:
        """The number of looks that rows have, as far as that is known."""
        listed = list(self._numbers)
        looks = [listed[number] for number in np.unique(self._of_row[self._versions != UNKNOWN]).tolist()]
        return max(len(looks), len({pool for look in looks for pool in look}))

    def of_rows(
        self,
        rows: npt.NDArray[np.int64],
        versions: npt.NDArray[np.int64],
        common_version: int,
        looks: PoolLooks,
    ) -> npt.NDArray[np.int64]:
        """The number of each row asked. ``versions`` are by row, as ``common_version`` is for all rows: a look is
        worked out again when either has changed."""
        if self._common_version != common_version:
            self._common_version = common_version
            self._versions[:] = UNKNOWN
        known = len(self._of_row)
        if known < len(versions):
            more = len(versions) - known
            self._of_row = np.append(self._of_row, np.zeros(more, np.int64))
            self._versions = np.append(self._versions, np.full(more, UNKNOWN, np.int64))
        for row in rows[self._versions[rows] != versions[rows]].tolist():
            pools, node = looks.pools_of(row)
            number = looks.of_common.get(id(pools))
            if number is None:
                number = self._number_of(pools, node, looks)
            self._of_row[row] = number
            self._versions[row] = versions[row]
        found: npt.NDArray[np.int64] = self._of_row[rows]
        return found

    def _number_of(self, pools: tuple[Pool, ...], node: str, looks: PoolLooks) -> int:
        is_common = True
        of_pools = []
        for pool in pools:
            number = looks.of_pool.get(id(pool))
            if number is None:
                number = self._number_of_pool(self.look_of(pool, node, looks.holdings))
                if pool.is_common:
                    looks.of_pool[id(pool)] = number
            is_common = is_common and pool.is_common
            of_pools.append(number)
        look = tuple(of_pools)
        found = self._numbers.setdefault(look, len(self._numbers))
        if found == len(self._bare):
            bare = tuple([self._bare_of_pool[number] for number in look])
            self._bare.append(self._bare_numbers.setdefault(bare, len(self._bare_numbers)))
        if is_common:
            looks.of_common[id(pools)] = found
        return found

    def _number_of_pool(self, look: PoolLook) -> int:
        found = self._pool_numbers.setdefault(look, len(self._pool_numbers))
        if found == len(self._bare_of_pool):
            self._bare_of_pool.append(self._bare_pools.setdefault(look[0], len(self._bare_pools)))
        return found

    def bare(self, number: int) -> int:
        """A number: equal for looks that differ only in what is held."""
        return self._bare[number]

    def look_of(self, pool: Pool, node: str, holdings: tuple[Holdings, ...]) -> PoolLook:
        """A pool as the search on a node sees it, without the names of the node and of its own slices."""
        driver, name = pool.key
        own = all(part.slice.spec.node_name == node for part in pool.parts)
        contents = tuple([(part.name if not own else "", self._content(part.content)) for part in pool.parts])
        # What other nodes' slices of the pool add is known by their names: such pools look like no other.
        beyond = () if own and len(pool.consumers) <= len(pool.devices) else tuple([one.id for one in pool.consumers])
        reach = () if own else tuple([one.is_reachable for one in pool.devices])
        where = () if own else tuple([part.slice.spec.node_name == node for part in pool.parts])
        held = _held(holdings, pool.key, pool.names)
        return (driver, "" if name == node else name, pool.state, contents, reach, where, beyond), held

    def _content(self, content: bytes) -> int:
        return self._contents.setdefault(content, len(self._contents))


def _held(holdings: tuple[Holdings, ...], pool: PoolKey, names: frozenset[str] | None) -> Hashable:
    """Which devices are taken, and how much of the shared ones; by which claims makes no difference to a search.
    ``names``: of the devices that matter, None for all."""
    taken: set[str] = set()
    shared: dict[str, dict[str, int]] = {}
    for each in holdings:
        found = each.taken_in(pool)
        taken.update(found if names is None else found.keys() & names)
        for device, shares in each.shares_in(pool).items():
            if names is not None and device not in names:
                continue
            total = shared.setdefault(device, {})
            for amounts in shares.values():
                for name, amount in amounts.items():
                    total[name] = total.get(name, 0) + amount
    if not taken and not shared:
        return ()
    return tuple(sorted(taken)), tuple([(device, tuple(sorted(shared[device].items()))) for device in sorted(shared)])
