"""The pools of devices that a node can reach (docs/kube-scheduler/dra.md §6.1, §6.2)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from scheduler.cluster.devices.slices import Amounts, PoolKey, SliceDevice, SliceIndex, SlicePart


class PoolState(Enum):
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    """Its slices are being written."""
    INVALID = "invalid"
    """Two devices or counter sets of one name, or a counter that does not exist."""


class ReachableDevice(NamedTuple):
    """``is_reachable``: False for a device that selects other nodes than this one."""

    device: SliceDevice
    part: SlicePart
    is_reachable: bool


class Pool(NamedTuple):
    """A pool as one node sees it; devices in the order in which they are tried."""

    key: PoolKey
    state: PoolState
    devices: tuple[ReachableDevice, ...]
    counter_sets: Mapping[str, Amounts]
    consumers: tuple[SliceDevice, ...]
    """The devices of all nodes that take from the counters."""
    parts: tuple[SlicePart, ...]
    fault: str = ""
    """What makes it invalid."""
    names: frozenset[str] | None = None
    """The devices that matter to the node, where the pool has others, too; None: all of them."""
    is_common: bool = False
    """Whether no slice of it that concerns the node names the node: then it is the same for all that reach it."""


class Reach:
    """The pools that nodes can reach, in the order in which they are searched. Nodes that reach the same slices share
    one answer, for as long as these slices are what they are."""

    def __init__(self, index: SliceIndex) -> None:
        self._index = index
        self._common: dict[Hashable, _Common] = {}
        """What nodes reach by slices that name no node, by those of these slices that concern them."""

    def forget(self) -> None:
        """Drop all answers, since slices that concern more than one node have changed, or pools with a fault have."""
        self._common.clear()

    def fork(self, index: SliceIndex) -> Reach:
        """The same over a fork of the slices."""
        other = Reach(index)
        other._common = dict(self._common)
        return other

    def pools_of(self, foreign: Mapping[PoolKey, Pool], node: str, labels: Mapping[str, str]) -> tuple[Pool, ...]:
        """The pools that a node of this name and labels can reach. ``foreign``: the answers of ``foreign_pool``."""
        own: dict[PoolKey, list[SlicePart]] = {}
        for part in self._index.of_node(node):
            own.setdefault(part.pool, []).append(part)
        common = self._common_of(foreign, node, labels)
        if not own:
            return common.pools
        pools = [self._pool(key, [*parts, *common.parts.get(key, ())], node, labels) for key, parts in own.items()]
        found = [pool for pool in pools if pool is not None]
        return _in_order([*found, *(pool for pool in common.pools if pool.key not in own)])

    def _common_of(self, foreign: Mapping[PoolKey, Pool], node: str, labels: Mapping[str, str]) -> _Common:
        reached = [(place, reach) for place in self._index.places() if (reach := _reach(place.parts[0], node, labels))]
        key = tuple([(place.key, reach) for place, reach in reached])
        found = self._common.get(key)
        if found is None:
            parts: dict[PoolKey, list[SlicePart]] = {}
            for place, _ in reached:
                for part in place.parts:
                    parts.setdefault(part.pool, []).append(part)
            pools = [self._pool(pool, list(of_pool), node, labels) for pool, of_pool in parts.items()]
            usable = [pool for pool in pools if pool is not None]
            others = [pool for one, pool in foreign.items() if one not in parts]
            found = self._common[key] = _Common(parts, _in_order([*usable, *others]))
        return found

    def _pool(self, key: PoolKey, parts: list[SlicePart], node: str, labels: Mapping[str, str]) -> Pool | None:
        known = {part.name for part in parts}
        parts += [part for part in self._index.counters_of(key) if part.name not in known]
        return _pool(self._index, key, parts, node, labels)


class _Common(NamedTuple):
    """What nodes without slices of their own can reach. ``parts``: by pool, by name, without those for the sake of
    their counters."""

    parts: Mapping[PoolKey, list[SlicePart]]
    pools: tuple[Pool, ...]


def _in_order(pools: list[Pool]) -> tuple[Pool, ...]:
    return tuple(sorted(pools, key=lambda pool: (_has_conditions(pool), pool.key[0].encode(), pool.key[1].encode())))


def _reach(part: SlicePart, node: str, labels: Mapping[str, str]) -> tuple[bool, ...]:
    """Whether a slice that names no node concerns this one; with a selection by device, which of them are for it."""
    spec = part.slice.spec
    if spec.all_nodes:
        return (True,)
    if part.selector is not None:
        return (True,) if part.selector.matches(labels, node) else ()
    if spec.per_device_node_selection:
        reached = tuple([_reaches(device, node, labels) for device in part.devices])
        return reached if any(reached) else ()
    return ()


def reachable_devices(index: SliceIndex, node: str, labels: Mapping[str, str]) -> Iterator[SliceDevice]:
    """The devices of all slices that a node can reach, of whatever generation and whether their pools are complete."""
    for part in (*index.of_node(node), *index.of_many()):
        spec = part.slice.spec
        if spec.per_device_node_selection:
            yield from (device for device in part.devices if _reaches(device, node, labels))
        elif spec.node_name or spec.all_nodes or part.selector is None or part.selector.matches(labels, node):
            yield from part.devices


def foreign_pool(index: SliceIndex, key: PoolKey) -> Pool | None:
    """A pool of which a node sees the counters alone; None where nothing is wrong with it: it then has no say.

    Without the devices that take from the counters: none of them is the node's, and they come and go with slices that
    do not concern it.
    """
    parts = list(index.counters_of(key))
    pool = _pool(index, key, parts, "", {}) if parts else None
    if pool is None or pool.state is PoolState.COMPLETE:
        return None
    return pool._replace(consumers=(), names=frozenset())


def _reaches(device: SliceDevice, node: str, labels: Mapping[str, str]) -> bool:
    fields = device.fields
    if fields.node_name:
        return fields.node_name == node
    if fields.all_nodes:
        return True
    return device.selector is not None and device.selector.matches(labels, node)


def _pool(index: SliceIndex, key: PoolKey, parts: list[SlicePart], node: str, labels: Mapping[str, str]) -> Pool | None:
    """The pool of these slices; None where its newer generation is known but does not concern the node."""
    generation = max(part.generation for part in parts)
    kept = sorted([part for part in parts if part.generation == generation], key=lambda part: part.name)
    wanted = kept[0].slice.spec.pool.resource_slice_count
    state = PoolState.COMPLETE
    is_partial = len(kept) != wanted
    if is_partial:
        # Only now the slices of other nodes are looked at, as in kube-scheduler 1.36.
        counts = index.counts_of(key)
        if counts.newest > generation:
            return None
        if counts.generations[generation] != wanted:
            state = PoolState.INCOMPLETE
    devices = []
    for part in kept:
        selects = bool(part.slice.spec.per_device_node_selection)
        for device in part.devices:
            devices.append(ReachableDevice(device, part, not selects or _reaches(device, node, labels)))
    same = kept
    if is_partial and index.counts_of(key).consuming:
        same = [part for part in index.of_pool(key) if part.generation == generation]
    consumers = tuple([device for part in same if part.has_consumers for device in part.devices if device.consumes])
    sets: dict[str, Amounts] = {}
    fault = ""
    if state is PoolState.COMPLETE:
        fault = _fault(kept, devices, consumers)
        if fault:
            state = PoolState.INVALID
    for part in kept:
        sets.update(part.counter_sets)
    is_common = all(part.slice.spec.node_name != node for part in kept)
    names = None
    if is_partial:
        names = frozenset([one.device.fields.name for one in devices] + [one.fields.name for one in consumers])
    return Pool(key, state, tuple(devices), sets, consumers, tuple(kept), fault, names, is_common)


def _fault(kept: list[SlicePart], devices: list[ReachableDevice], consumers: tuple[SliceDevice, ...]) -> str:
    names: set[str] = set()
    for one in devices:
        if one.device.fields.name in names:
            return f"duplicate device name {one.device.fields.name}"
        names.add(one.device.fields.name)
    sets: dict[str, Amounts] = {}
    for part in kept:
        for name, counters in part.counter_sets:
            if name in sets:
                return f"duplicate counter set name {name}"
            sets[name] = counters
    for device in consumers:
        for name, consumed in device.consumes.items():
            if name not in sets:
                return f"counter set {name} not found"
            for counter in consumed:
                if counter not in sets[name]:
                    return f"counter {counter} not found in counter set {name}"
    return ""


def _has_conditions(pool: Pool) -> bool:
    """Whether a device of the pool has binding conditions; pools that cannot be used sort with those that have none, as
    in kube-scheduler 1.36."""
    return pool.state is PoolState.COMPLETE and any(one.device.fields.binding_conditions for one in pool.devices)
