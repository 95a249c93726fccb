"""The pools of devices that a node can reach (docs/kube-scheduler/dra.md §6.1, §6.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def pools_of(
    index: SliceIndex, foreign: Mapping[PoolKey, Pool], node: str, labels: Mapping[str, str]
) -> tuple[Pool, ...]:
    """In the order in which they are searched. ``foreign``: the answers of ``foreign_pool``."""
    relevant: dict[PoolKey, list[SlicePart]] = {}
    for part in index.of_node(node):
        relevant.setdefault(part.pool, []).append(part)
    for part in index.of_many():
        if not part.has_counters and _concerns(part, node, labels):
            relevant.setdefault(part.pool, []).append(part)
    pools = []
    for key, parts in relevant.items():
        known = {part.name for part in parts}
        parts += [part for part in index.counters_of(key) if part.name not in known]
        pool = _pool(index, key, parts, node, labels)
        if pool is not None:
            pools.append(pool)
    pools += [pool for key, pool in foreign.items() if key not in relevant]
    return tuple(sorted(pools, key=lambda pool: (_has_conditions(pool), pool.key[0].encode(), pool.key[1].encode())))


def reachable_devices(index: SliceIndex, node: str, labels: Mapping[str, str]) -> Iterator[SliceDevice]:
    """The devices of all slices that a node can reach, of whatever generation and whether their pools are complete."""
    for part in (*index.of_node(node), *index.of_many()):
        spec = part.slice.spec
        if spec.per_device_node_selection:
            yield from (device for device in part.devices if _reaches(device, node, labels))
        elif spec.node_name or spec.all_nodes or part.selector is None or part.selector.matches(labels, node):
            yield from part.devices


def foreign_pool(index: SliceIndex, key: PoolKey) -> Pool | None:
    """A pool of which a node sees the counters alone; None where nothing is wrong with it: it then has no say."""
    parts = list(index.counters_of(key))
    pool = _pool(index, key, parts, "", {}) if parts else None
    return pool if pool is not None and pool.state is not PoolState.COMPLETE else None


def _concerns(part: SlicePart, node: str, labels: Mapping[str, str]) -> bool:
    spec = part.slice.spec
    if spec.node_name:
        return spec.node_name == node
    if spec.all_nodes:
        return True
    if part.selector is not None:
        return part.selector.matches(labels, node)
    if spec.per_device_node_selection:
        return any(_reaches(device, node, labels) for device in part.devices)
    return False


def _reaches(device: SliceDevice, node: str, labels: Mapping[str, str]) -> bool:
    fields = device.fields
    if fields.node_name:
        return fields.node_name == node
    if fields.all_nodes:
        return True
    return device.selector is not None and device.selector.matches(labels, node)


def _pool(index: SliceIndex, key: PoolKey, parts: list[SlicePart], node: str, labels: Mapping[str, str]) -> Pool | None:
    """None for a pool whose newer generation is known but does not concern the node."""
    generation = max(part.generation for part in parts)
    kept = sorted([part for part in parts if part.generation == generation], key=lambda part: part.name)
    wanted = kept[0].slice.spec.pool.resource_slice_count
    same = kept
    state = PoolState.COMPLETE
    if len(kept) != wanted:
        # Only now the slices of other nodes are looked at, as in kube-scheduler 1.36.
        everywhere = index.of_pool(key)
        if any(part.generation > generation for part in everywhere):
            return None
        same = [part for part in everywhere if part.generation == generation]
        if len(same) != wanted:
            state = PoolState.INCOMPLETE
    devices = []
    for part in kept:
        selects = bool(part.slice.spec.per_device_node_selection)
        for device in part.devices:
            devices.append(ReachableDevice(device, part, not selects or _reaches(device, node, labels)))
    consumers = tuple([device for part in same for device in part.devices if device.consumes])
    sets: dict[str, Amounts] = {}
    fault = ""
    if state is PoolState.COMPLETE:
        fault = _fault(kept, devices, consumers)
        if fault:
            state = PoolState.INVALID
    for part in kept:
        sets.update(part.counter_sets)
    return Pool(key, state, tuple(devices), sets, consumers, tuple(kept), fault)


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
    """Of pools that can be used: in the order the others come with those that have none, as in kube-scheduler 1.36."""
    return pool.state is PoolState.COMPLETE and any(one.device.fields.binding_conditions for one in pool.devices)
