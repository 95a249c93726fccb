"""The PersistentVolumes of a storage class that claims can be bound to, and its reported capacity."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from weakref import ref

import numpy as np
import numpy.typing as npt

from scheduler.cluster.table import NodeTable
from scheduler.cluster.volumes.by_label import ByLabel, Ranked, places_of_labels, places_of_terms, terms_of
from scheduler.cluster.volumes.ranked import RankedThings, SlotLabels, Wish
from scheduler.cluster.volumes.reach import NO_RANK, Column
from scheduler.cluster.volumes.storage_selectors import node_affinity_of
from scheduler.objects.node_selectors import NodeSelector
from scheduler.objects.selectors import EVERYTHING, Selector, SelectorError, parse_selector
from scheduler.objects.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim

Accepts = Callable[[PersistentVolume], bool]
Mask = npt.NDArray[np.bool_]

_MAX_SIZES = 16
"""Sizes for which the rows with room are kept."""


class VolumePool:
    """The PersistentVolumes of one class, as assumed. Where kube-scheduler 1.36 goes through them in no certain order,
    the order here is by name."""

    __slots__ = ("_claimed", "_free", "_kinds", "_labels", "_ranked", "_selectors", "_volumes")

    def __init__(self) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._selectors: dict[str, NodeSelector | None] = {}
        self._free = ByLabel()
        self._claimed: dict[str, list[str]] = {}
        self._ranked = RankedThings()
        self._labels = SlotLabels()
        self._kinds = VolumeKinds()

    def __len__(self) -> int:
        return len(self._volumes)

    def copied(self) -> VolumePool:
        other = VolumePool()
        other._volumes = dict(self._volumes)
        other._selectors = dict(self._selectors)
        other._free = self._free.copied()
        other._claimed = {key: list(names) for key, names in self._claimed.items()}
        other._ranked = self._ranked.copied()
        other._labels = self._labels.copied()
        other._kinds = self._kinds.copied()
        return other

    def put(self, volume: PersistentVolume) -> None:
        """Add a volume, or replace the one of its name."""
        name = volume.metadata.name
        self.drop(name)
        self._volumes[name] = volume
        reference = volume.spec.claim_ref
        if reference is not None:
            insort(self._claimed.setdefault(f"{reference.namespace}/{reference.name}", []), name)
        elif volume.status.phase == "Available" and not volume.is_terminating:
            selector = self._selectors[name] = node_affinity_of(volume)
            places = places_of_terms(selector) if selector is not None else None
            self._free.put(name, volume.storage_capacity, places)
            slot = self._ranked.put(name, volume.storage_capacity, terms_of(selector))
            self._labels.put(slot, volume.metadata.labels)
            self._kinds.put(slot, volume)

    def drop(self, name: str) -> None:
        """Remove the volume of this name, if there is one."""
        known = self._volumes.pop(name, None)
        if known is None:
            return
        reference = known.spec.claim_ref
        if reference is None:
            self._free.drop(name)
            self._ranked.drop(name)
            self._selectors.pop(name, None)
            return
        key = f"{reference.namespace}/{reference.name}"
        listed = self._claimed[key]
        del listed[bisect_left(listed, name)]
        if not listed:
            del self._claimed[key]

    def set_aside_for(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Volumes whose ``claimRef`` is this claim, by name."""
        volumes = [self._volumes[name] for name in self._claimed.get(claim.key, ())]
        return [volume for volume in volumes if volume.is_claimed_by(claim)]

    def smallest(
        self, since: Ranked, labels: Mapping[str, str], taken: Collection[str], accepts: Accepts
    ) -> PersistentVolume | None:
        """The first free volume, by size and name, that a node with these labels reaches and ``accepts`` takes, but
        those already ``taken``. None if there is none. ``since``: size (nano-bytes) and name to begin with."""
        best: Ranked | None = None
        for listed in self._free.lists(labels):
            for at in range(bisect_left(listed, since), len(listed)):
                ranked = listed[at]
                if best is not None and ranked >= best:
                    break
                name = ranked[1]
                if name in taken:
                    continue
                selector = self._selectors[name]
                reached = selector is None or selector.matches(labels)
                if reached and accepts(self._volumes[name]):
                    best = ranked
                    break
        return self._volumes[best[1]] if best is not None else None

    def ranks(self, size: int, labels: Selector, accepts: Accepts) -> Column:
        """Numbers, by slot, that order the free volumes as ``smallest`` does, and stand for them until the pool
        changes: NO_RANK for those that will not do. ``labels``: what the volume's must be. ``accepts`` decides by all
        of a volume but its labels, size and name."""

        def will_do(slots: Column) -> Mask:
            mask = self._kinds.accepted(slots, accepts)
            return mask & self._labels.matching(labels, slots) if labels is not EVERYTHING else mask

        return self._ranked.ranks(size, will_do)

    def given(self, table: NodeTable, wishes: Sequence[Wish]) -> Iterator[Column]:
        """For every row of the table the free volume that ``smallest`` finds there, for one wish after the other, each
        without what the earlier ones got: as a rank, int64, NO_RANK where there is none."""
        return self._ranked.given(table, wishes)


Kind = tuple[str, str, str, tuple[str, ...]]


class VolumeKinds:
    """Volumes by slot, numbered by what they are: a question is asked once for all that are alike."""

    __slots__ = ("_examples", "_kinds", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[Kind, int] = {}
        self._examples: list[PersistentVolume] = []
        self._kinds: npt.NDArray[np.int32] = np.zeros(16, np.int32)

    def put(self, slot: int, volume: PersistentVolume) -> None:
        """Note which volume is in the slot."""
        modes = tuple(sorted(volume.spec.access_modes))
        kind = (volume.volume_mode, volume.volume_attributes_class, volume.storage_class, modes)
        number = self._numbers.setdefault(kind, len(self._numbers))
        if number == len(self._examples):
            self._examples.append(volume)
        if slot >= len(self._kinds):
            self._kinds = np.append(self._kinds, np.zeros(slot, np.int32))
        self._kinds[slot] = number

    def copied(self) -> VolumeKinds:
        other = VolumeKinds()
        other._numbers = dict(self._numbers)
        other._examples = list(self._examples)
        other._kinds = self._kinds.copy()
        return other

    def accepted(self, slots: Column, accepts: Accepts) -> Mask:
        """Which of the slots have a volume that will do: bool, one each."""
        return np.array([accepts(example) for example in self._examples], np.bool_)[self._kinds[slots]]


def reaches(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels can use the volume."""
    selector = node_affinity_of(volume)
    return selector is None or selector.matches(labels)


class CapacityPool:
    """The CSIStorageCapacity objects of one class, of all namespaces."""

    __slots__ = ("_answers", "_by_label", "_ranked", "_selectors")

    def __init__(self) -> None:
        self._by_label = ByLabel()
        self._selectors: dict[str, Selector] = {}
        self._ranked = RankedThings()
        self._answers: OrderedDict[int, tuple[tuple[object, ...], Mask]] = OrderedDict()

    def __len__(self) -> int:
        """How many of them some node may use."""
        return len(self._selectors)

    def copied(self) -> CapacityPool:
        other = CapacityPool()
        other._by_label = self._by_label.copied()
        other._selectors = dict(self._selectors)
        other._ranked = self._ranked.copied()
        return other

    def put(self, capacity: CSIStorageCapacity) -> None:
        """Objects that no node can use (no topology, an invalid one, no size) are left out."""
        self.drop(capacity.key)
        limit = capacity.limit
        if capacity.node_topology is None or limit is None:
            return
        try:
            selector = parse_selector(capacity.node_topology)
        except SelectorError:
            return
        self._selectors[capacity.key] = selector
        self._by_label.put(capacity.key, limit, places_of_labels(selector))
        self._ranked.put(capacity.key, limit, [] if selector.selects_nothing else [selector.requirements])

    def drop(self, key: str) -> None:
        self._selectors.pop(key, None)
        self._by_label.drop(key)
        self._ranked.drop(key)

    def rows_with(self, table: NodeTable, size: int) -> Mask:
        """Rows of the table that a volume of ``size`` (nano-bytes) can be made for: bool. Do not change it."""
        now = (ref(table), table.labels_version, table.size, self._ranked.version)
        known = self._answers.get(size)
        if known is None or known[0] != now:
            best = self._ranked.least(table, self._ranked.ranks(size))
            known = self._answers[size] = now, best != NO_RANK
            if len(self._answers) > _MAX_SIZES:
                self._answers.popitem(last=False)
        return known[1]

    def has(self, size: int, labels: Mapping[str, str]) -> bool:
        """Whether a volume of ``size`` (nano-bytes) can be made for a node with these labels."""
        return any(True for _ in self._for_node(size, labels))

    def smallest(self, size: int, labels: Mapping[str, str]) -> str | None:
        """``namespace/name`` of the smallest that such a volume can be made from; kube-scheduler takes any of them."""
        found = min(self._for_node(size, labels), default=None)
        return None if found is None else found[1]

    def _for_node(self, size: int, labels: Mapping[str, str]) -> Iterator[tuple[int, str]]:
        """Those that a volume of ``size`` can be made from for a node with these labels, with their limits."""
        for listed in self._by_label.lists(labels):
            for limit, name in listed[bisect_left(listed, (size, "")) :]:
                if self._selectors[name].matches(labels):
                    yield limit, name
