"""ResourceSlices by the nodes and pools that they belong to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

import msgspec

from scheduler.cluster.devices.descriptions import Described, describe
from scheduler.cluster.forkable import ForkableDict
from scheduler.objects.devices import Counter, Device, ResourceSlice
from scheduler.objects.node_selectors import NodeSelector, parse_node_selector
from scheduler.objects.quantity import InvalidQuantity, parse

PoolKey = tuple[str, str]
"""(driver, pool name)"""
DeviceId = tuple[str, str, str]
"""(driver, pool name, device name)"""

DIGEST_BYTES: Final = 20

Key = TypeVar("Key")

Amounts = dict[str, int]
"""Counter → nano-units."""


class SliceDevice(NamedTuple):
    """One device of a slice. ``consumes``: counter set → counter → nano-units."""

    id: DeviceId
    fields: Device
    described: Described
    consumes: dict[str, Amounts]
    selector: NodeSelector | None


class SlicePart:
    """A slice, with what is worked out about it once."""

    __slots__ = (
        "content",
        "counter_sets",
        "descriptions",
        "devices",
        "has_consumers",
        "has_counters",
        "name",
        "pool",
        "selector",
        "slice",
        "where",
    )

    def __init__(self, of: ResourceSlice) -> None:
        spec = of.spec
        self.slice = of
        self.name = of.metadata.name
        self.pool: PoolKey = (spec.driver, spec.pool.name)
        self.selector: NodeSelector | None = parse_node_selector(spec.node_selector) if spec.node_selector else None
        self.has_counters = bool(spec.shared_counters)
        self.counter_sets = tuple([(one.name, amounts(one.counters)) for one in spec.shared_counters])
        self.devices = tuple([self._device(device) for device in spec.devices])
        self.has_consumers = any(device.consumes for device in self.devices)
        self.descriptions = _shared(tuple([device.described for device in self.devices]))
        """The descriptions of its devices, in their order: one object for slices whose devices look alike."""
        self.content = _digest((spec.driver, spec.devices, spec.shared_counters))
        """Equal for slices that differ only in their names and in where they are."""
        self.where = b"" if self.is_of_one_node else self._where()
        """Equal for slices that are for the same nodes, if the slice names no node."""

    def _device(self, device: Device) -> SliceDevice:
        driver, pool = self.pool
        consumed: dict[str, Amounts] = {}
        for one in device.consumes_counters:
            consumed.setdefault(one.counter_set, {}).update(amounts(one.counters))
        selector = parse_node_selector(device.node_selector) if device.node_selector else None
        return SliceDevice((driver, pool, device.name), device, describe(driver, device), consumed, selector)

    def _where(self) -> bytes:
        spec = self.slice.spec
        by_device = spec.devices if spec.per_device_node_selection else ()
        devices = [(one.node_name, one.all_nodes, one.node_selector) for one in by_device]
        return msgspec.json.encode((spec.all_nodes, spec.node_selector, spec.per_device_node_selection, devices))

    @property
    def generation(self) -> int:
        return self.slice.spec.pool.generation

    @property
    def is_of_one_node(self) -> bool:
        return bool(self.slice.spec.node_name)


def _digest(value: object) -> bytes:
    """A digest of what a driver publishes, which has some 100 bytes for each device: numbers of looks outlive
    slices."""
    return blake2b(msgspec.json.encode(value), digest_size=DIGEST_BYTES).digest()


@lru_cache(maxsize=4096)
def _shared(descriptions: tuple[Described, ...]) -> tuple[Described, ...]:
    """The first of equal tuples: what is kept by description is found by identity then."""
    return descriptions


def amounts(counters: dict[str, Counter]) -> Amounts:
    """Nano-units by counter. An amount that can't be read, which the API server refuses, counts as 0."""
    return {name: _nanos(one.value) for name, one in counters.items()}


def _nanos(written: str | int | float) -> int:
    try:
        return parse(written)
    except InvalidQuantity:
        return 0


class PoolCounts:
    """How many slices of a pool there are, so that a question about one node costs no look at those of all others.
    ``nodes``: by name those that slices name; ``generations``: slices by generation; ``consuming``: slices with devices
    that take from counters."""

    __slots__ = ("consuming", "generations", "nodes", "of_many")

    def __init__(self) -> None:
        self.generations: dict[int, int] = {}
        self.nodes: dict[str, int] = {}
        self.of_many = 0
        self.consuming = 0

    def copy(self) -> PoolCounts:
        other = PoolCounts()
        other.generations, other.nodes = dict(self.generations), dict(self.nodes)
        other.of_many, other.consuming = self.of_many, self.consuming
        return other

    def add(self, part: SlicePart, sign: int) -> None:
        """Count a slice (``sign`` +1), or count one no longer (-1)."""
        _count(self.generations, part.generation, sign)
        self.consuming += sign * part.has_consumers
        if part.is_of_one_node:
            _count(self.nodes, part.slice.spec.node_name or "", sign)
        else:
            self.of_many += sign

    @property
    def newest(self) -> int:
        return max(self.generations)


NO_SLICES = PoolCounts()


class Place(NamedTuple):
    """Slices that name no node and are for the same nodes. ``key``: what distinguishes it from other places."""

    key: bytes
    parts: tuple[SlicePart, ...]


class SliceIndex:
    """All slices. ``observe`` keeps it up to date."""

    def __init__(self) -> None:
        self._parts: ForkableDict[str, SlicePart] = ForkableDict()
        self._of_pool: ForkableDict[PoolKey, dict[str, SlicePart]] = ForkableDict()
        self._of_node: ForkableDict[str, dict[str, SlicePart]] = ForkableDict()
        self._of_many: ForkableDict[str, SlicePart] = ForkableDict()
        self._counters: ForkableDict[PoolKey, dict[str, SlicePart]] = ForkableDict()
        self._counts: ForkableDict[PoolKey, PoolCounts] = ForkableDict()
        self._places: tuple[Place, ...] | None = None
        """The answer of ``places``; None: not computed."""
        self._nodes_of_device: dict[PoolKey, dict[str, list[str]]] = {}
        """Of pools that were asked about since they changed last: device → the nodes that slices with it name."""

    def fork(self) -> SliceIndex:
        """The same; neither side sees what the other changes."""
        other = SliceIndex()
        other._parts = self._parts.fork()
        other._of_pool = self._of_pool.fork()
        other._of_node = self._of_node.fork()
        other._of_many = self._of_many.fork()
        other._counters = self._counters.fork()
        other._counts = self._counts.fork()
        other._places = self._places
        other._nodes_of_device = dict(self._nodes_of_device)
        return other

    def observe(
        self, old: ResourceSlice | None, new: ResourceSlice | None
    ) -> tuple[SlicePart | None, SlicePart | None]:
        """Apply a change of a slice; returns the parts taken out and put in."""
        before = self._remove(old.metadata.name) if old is not None else None
        after = SlicePart(new) if new is not None else None
        if after is not None:
            self._insert(after)
        return before, after

    def rebuild(self, slices: Iterable[ResourceSlice]) -> None:
        self.__init__()  # type: ignore[misc]  # starts again, as when made
        for one in slices:
            self._insert(SlicePart(one))

    def __len__(self) -> int:
        return len(self._parts)

    def of_pool(self, pool: PoolKey) -> tuple[SlicePart, ...]:
        """All slices of a pool, of whatever generation, by name."""
        return _by_name(self._of_pool.get(pool, {}))

    def of_node(self, node: str) -> tuple[SlicePart, ...]:
        """The slices that name the node."""
        return _by_name(self._of_node.get(node, {}))

    def of_many(self) -> tuple[SlicePart, ...]:
        """The slices that name no node."""
        return _by_name(self._of_many)

    def counters_of(self, pool: PoolKey) -> tuple[SlicePart, ...]:
        """The pool's slices with counters, which concern every node."""
        return _by_name(self._counters.get(pool, {}))

    def places(self) -> tuple[Place, ...]:
        """The slices that name no node, without those that have counters, by the nodes that they are for."""
        if self._places is None:
            found: dict[bytes, list[SlicePart]] = {}
            for part in _by_name(self._of_many):
                if not part.has_counters:
                    found.setdefault(part.where, []).append(part)
            self._places = tuple([Place(key, tuple(parts)) for key, parts in found.items()])
        return self._places

    @property
    def pools_with_counters(self) -> Iterable[PoolKey]:
        return self._counters.keys()

    def counts_of(self, pool: PoolKey) -> PoolCounts:
        """The numbers of a pool's slices. Do not change it."""
        found: PoolCounts = self._counts.get(pool, NO_SLICES)
        return found

    def nodes_of(self, pool: PoolKey) -> Collection[str] | None:
        """The nodes that slices of the pool name; None where some name none."""
        counts = self.counts_of(pool)
        return None if counts.of_many else counts.nodes.keys()

    def nodes_with(self, pool: PoolKey, device: str) -> Sequence[str]:
        """The nodes that slices with a device of this name name."""
        found = self._nodes_of_device.get(pool)
        if found is None:
            parts: dict[str, SlicePart] = self._of_pool.get(pool, {})
            if not parts:
                # Claims may hold devices of a pool that is gone, and nothing would ever drop what is kept of it.
                return ()
            found = self._nodes_of_device[pool] = {}
            for part in parts.values():
                for one in part.devices:
                    found.setdefault(one.fields.name, []).append(part.slice.spec.node_name or "")
        return found.get(device, ())

    def _insert(self, part: SlicePart) -> None:
        self._parts[part.name] = part
        _put(self._of_pool, part.pool, part)
        if part.is_of_one_node:
            _put(self._of_node, part.slice.spec.node_name or "", part)
        else:
            self._of_many[part.name] = part
            self._places = None
        if part.has_counters:
            _put(self._counters, part.pool, part)
        if part.pool not in self._counts:
            self._counts[part.pool] = PoolCounts()
        self._counts.writable(part.pool, PoolCounts.copy).add(part, 1)
        self._nodes_of_device.pop(part.pool, None)

    def _remove(self, name: str) -> SlicePart | None:
        part: SlicePart | None = self._parts.pop(name, None)
        if part is None:
            return None
        _drop(self._of_pool, part.pool, name)
        if part.is_of_one_node:
            _drop(self._of_node, part.slice.spec.node_name or "", name)
        else:
            self._of_many.pop(name, None)
            self._places = None
        if part.has_counters:
            _drop(self._counters, part.pool, name)
        counts = self._counts.writable(part.pool, PoolCounts.copy)
        counts.add(part, -1)
        self._nodes_of_device.pop(part.pool, None)
        if not counts.generations:
            del self._counts[part.pool]
        return part


def _put(index: ForkableDict[Key, dict[str, SlicePart]], key: Key, part: SlicePart) -> None:
    if key not in index:
        index[key] = {}
    index.writable(key, dict)[part.name] = part


def _drop(index: ForkableDict[Key, dict[str, SlicePart]], key: Key, name: str) -> None:
    found = index.writable(key, dict)
    found.pop(name, None)
    if not found:
        del index[key]


def _count(counts: dict[Key, int], key: Key, sign: int) -> None:
    number = counts.get(key, 0) + sign
    if number:
        counts[key] = number
    else:
        del counts[key]


def _by_name(parts: dict[str, SlicePart]) -> tuple[SlicePart, ...]:
    if len(parts) <= 1:
        return tuple(parts.values())
    return tuple([parts[name] for name in sorted(parts)])
