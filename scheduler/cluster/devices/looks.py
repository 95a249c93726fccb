"""Numbers for rows whose devices look alike, so that one search answers for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.allocated import Holdings
from scheduler.cluster.devices.pools import Pool
from scheduler.cluster.devices.slices import PoolKey

MAX_LOOKS = 65_536
"""Different looks of a node's devices that are distinguished before all are forgotten."""
UNKNOWN = -1


PoolLook = tuple[Hashable, Hashable]
"""What a pool is, and what is held of it."""


class Looks:
    """By row, the number of its look. ``epoch`` grows when numbers are given again, which voids answers by number."""

    def __init__(self) -> None:
        self.epoch = 0
        self._contents: dict[bytes, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._bare_numbers: dict[Hashable, int] = {}
        self._bare: list[int] = []
        """By number of a look, the number of what it is without what is held."""
        self._of_row: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._versions: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._common_version = UNKNOWN

    def fork(self) -> Looks:
        other = Looks()
        other.epoch = self.epoch
        other._contents = dict(self._contents)
        other._numbers = dict(self._numbers)
        other._bare_numbers = dict(self._bare_numbers)
        other._bare = list(self._bare)
        other._of_row = self._of_row.copy()
        other._versions = self._versions.copy()
        other._common_version = self._common_version
        return other

    def forget_if_crowded(self) -> None:
        """Keeps the numbers within ``MAX_LOOKS`` plus the rows of one question."""
        if len(self._numbers) > MAX_LOOKS:
            self._numbers.clear()
            self._bare_numbers.clear()
            self._bare.clear()
            self._contents.clear()
            self._versions[:] = UNKNOWN
            self.epoch += 1

    def of_rows(
        self,
        rows: npt.NDArray[np.int64],
        versions: npt.NDArray[np.int64],
        common_version: int,
        look_of: Callable[[int], tuple[PoolLook, ...]],
    ) -> npt.NDArray[np.int64]:
        """By row asked, its number. ``versions`` are by row, as ``common_version`` is for all rows: a look is worked
        out again when either has changed."""
        if self._common_version != common_version:
            self._common_version = common_version
            self._versions[:] = UNKNOWN
        known = len(self._of_row)
        if known < len(versions):
            more = len(versions) - known
            self._of_row = np.append(self._of_row, np.zeros(more, np.int64))
            self._versions = np.append(self._versions, np.full(more, UNKNOWN, np.int64))
        for row in rows[self._versions[rows] != versions[rows]].tolist():
            look = look_of(row)
            number = self._of_row[row] = self._numbers.setdefault(look, len(self._numbers))
            if number == len(self._bare):
                bare = tuple([pool for pool, _ in look])
                self._bare.append(self._bare_numbers.setdefault(bare, len(self._bare_numbers)))
            self._versions[row] = versions[row]
        found: npt.NDArray[np.int64] = self._of_row[rows]
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
        held = _held(holdings, pool.key)
        return (driver, "" if name == node else name, pool.state, contents, reach, where, beyond), held

    def _content(self, content: bytes) -> int:
        return self._contents.setdefault(content, len(self._contents))


def _held(holdings: tuple[Holdings, ...], pool: PoolKey) -> Hashable:
    """Which devices are taken, and how much of the shared ones; by which claims makes no difference to a search."""
    taken: set[str] = set()
    shared: dict[str, dict[str, int]] = {}
    for each in holdings:
        taken.update(each.taken_in(pool))
        for device, shares in each.shares_in(pool).items():
            total = shared.setdefault(device, {})
            for amounts in shares.values():
                for name, amount in amounts.items():
                    total[name] = total.get(name, 0) + amount
    if not taken and not shared:
        return ()
    return tuple(sorted(taken)), tuple([(device, tuple(sorted(shared[device].items()))) for device in sorted(shared)])
