"""The device pools that each node can reach, cached, and the versions of the rows whose devices have changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.pools import Pool, Reach
from scheduler.cluster.devices.slices import DeviceId, PoolKey, SliceIndex
from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.table import NodeTable


class ReachedPools:
    """Rows mean rows of ``table``. ``with_pools``: what the nodes can reach is another, and not only what is held."""

    def __init__(self, table: NodeTable, slices: SliceIndex) -> None:
        self.common_version = 0
        """Grows with what concerns every node."""
        self._table = table
        self._slices = slices
        self._reach = Reach(slices)
        self._of_row: ForkableDict[int, tuple[Pool, ...]] = ForkableDict()
        """The pools of each row that were found since slices and nodes last changed; claims make no difference."""
        self._versions: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._touched: dict[PoolKey, bool] = {}
        """Pools whose nodes have all to be touched before the next question; with their pools or not."""

    def fork(self, table: NodeTable, slices: SliceIndex) -> ReachedPools:
        """The same over forks of the table and the slices."""
        self._settle()
        other = ReachedPools(table, slices)
        other.common_version = self.common_version
        other._reach = self._reach.fork(slices)
        other._of_row = self._of_row.fork()
        other._versions = self._versions.copy()
        return other

    def pools(self, row: int, foreign: Mapping[PoolKey, Pool]) -> tuple[Pool, ...]:
        """The pools that the node of a row can reach, in the order in which they are searched. ``foreign``: see
        ``Reach``."""
        self._settle()
        kept: tuple[Pool, ...] | None = self._of_row.get(row)
        if kept is not None:
            return kept
        node = self._table.nodes[row]
        pools = self._reach.pools_of(foreign, node.metadata.name, node.metadata.labels) if node is not None else ()
        self._of_row[row] = pools
        return pools

    def versions(self) -> npt.NDArray[np.int64]:
        """A version for each row, which grows with what concerns the row alone."""
        self._settle()
        self._grow(self._table.size)
        return self._versions[: self._table.size]

    # --- changes ------------------------------------------------------------------------------------------------------

    def touch_all(self, *, with_pools: bool) -> None:
        self.common_version += 1
        if with_pools:
            self._of_row = ForkableDict()
            self._reach.forget()

    def touch_row(self, row: int, *, with_pools: bool) -> None:
        if row >= len(self._versions):
            self._grow(row + 1)
        self._versions[row] += 1
        if with_pools and row in self._of_row:
            del self._of_row[row]

    def touch_pools(self, pools: Iterable[PoolKey]) -> None:
        """Touch all nodes that can reach one of the pools as it is now: what they can reach has changed."""
        for pool in pools:
            nodes = self._slices.nodes_of(pool)
            if nodes is None:
                self.touch_all(with_pools=True)
            elif len(nodes) == 1:
                self.touch_nodes(nodes, with_pools=True)
            elif nodes:
                # A pool of thousands of slices comes slice by slice: its nodes are touched once for all of them.
                self._touched[pool] = True
            else:
                self._touched.pop(pool, None)

    def touch_held(self, devices: Iterable[DeviceId]) -> None:
        """Touch all nodes for which it makes a difference who holds these devices."""
        for driver, pool, device in devices:
            key = (driver, pool)
            nodes = self._slices.nodes_of(key)
            if nodes is None:
                self.touch_all(with_pools=False)
            elif len(nodes) == 1:
                self.touch_nodes(nodes, with_pools=False)
            elif self._slices.counts_of(key).consuming:
                self._touched.setdefault(key, False)
            else:
                self.touch_nodes(self._slices.nodes_with(key, device), with_pools=False)

    def touch_nodes(self, nodes: Iterable[str], *, with_pools: bool) -> None:
        for name in nodes:
            row = self._table.row(name)
            if row is not None:
                self.touch_row(row, with_pools=with_pools)

    def _settle(self) -> None:
        """Before a question: touch the nodes of the pools that have changed since the last one."""
        while self._touched:
            pool, with_pools = self._touched.popitem()
            self.touch_nodes(self._slices.nodes_of(pool) or (), with_pools=with_pools)

    def _grow(self, size: int) -> None:
        known = len(self._versions)
        if known < size:
            self._versions = np.append(self._versions, np.zeros(max(size, 2 * known) - known, np.int64))
