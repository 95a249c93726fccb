"""What a storage class has to offer: its PersistentVolumes that claims can be bound to, and its free capacity."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping

from scheduler.cluster.volumes.by_label import ByLabel, keys_of_terms, places_of_labels, places_of_terms
from scheduler.objects.node_selectors import NodeSelector, NodeSelectorTerm, parse_node_selector
from scheduler.objects.selectors import Selector, SelectorError, parse_selector
from scheduler.objects.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim

Accepts = Callable[[PersistentVolume], bool]


def node_affinity_of(volume: PersistentVolume) -> NodeSelector | None:
    """What a volume requires of its nodes' labels; None if it can be used everywhere."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    selector = parse_node_selector(affinity.required)
    if not any(term.fields for term in selector.terms):
        return selector
    # A volume's requirements on fields of the node are not looked at.
    return NodeSelector(tuple(NodeSelectorTerm(term.expressions, (), term.faults) for term in selector.terms))


class VolumePool:
    """The PersistentVolumes of one class, as assumed. Where kube-scheduler 1.36 goes through them in no certain order,
    the order here is by name."""

    __slots__ = ("_claimed", "_free", "_selectors", "_volumes")

    def __init__(self) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._selectors: dict[str, NodeSelector | None] = {}
        self._free = ByLabel()
        self._claimed: dict[str, list[str]] = {}

    def __len__(self) -> int:
        return len(self._volumes)

    def copied(self) -> VolumePool:
        other = VolumePool()
        other._volumes = dict(self._volumes)
        other._selectors = dict(self._selectors)
        other._free = self._free.copied()
        other._claimed = {key: list(names) for key, names in self._claimed.items()}
        return other

    @property
    def mentioned_keys(self) -> Iterable[str]:
        """The labels that the free volumes' node affinities look at."""
        return self._free.mentioned_keys

    def put(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        self.drop(name)
        self._volumes[name] = volume
        reference = volume.spec.claim_ref
        if reference is not None:
            insort(self._claimed.setdefault(f"{reference.namespace}/{reference.name}", []), name)
        elif volume.status.phase == "Available" and not volume.is_terminating:
            selector = self._selectors[name] = node_affinity_of(volume)
            places = places_of_terms(selector) if selector is not None else None
            keys = keys_of_terms(selector) if selector is not None else frozenset()
            self._free.put(name, volume.storage_capacity, places, keys)

    def drop(self, name: str) -> None:
        known = self._volumes.pop(name, None)
        if known is None:
            return
        reference = known.spec.claim_ref
        if reference is None:
            self._free.drop(name)
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
        self, size: int, labels: Mapping[str, str], taken: Collection[str], accepts: Accepts
    ) -> PersistentVolume | None:
        """The smallest free volume of at least ``size`` (nano-bytes) that a node with these labels reaches and
        ``accepts`` takes, but those already ``taken``; of equal ones the first by name. None if there is none."""
        best: tuple[int, str] | None = None
        for listed in self._free.lists(labels):
            for at in range(bisect_left(listed, (size, "")), len(listed)):
                ranked = listed[at]
                if best is not None and ranked >= best:
                    break
                name = ranked[1]
                selector = self._selectors[name]
                reached = selector is None or selector.matches(labels)
                if reached and name not in taken and accepts(self._volumes[name]):
                    best = ranked
                    break
        return self._volumes[best[1]] if best is not None else None


def reaches(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels can use the volume."""
    selector = node_affinity_of(volume)
    return selector is None or selector.matches(labels)


class CapacityPool:
    """The CSIStorageCapacity objects of one class, of all namespaces."""

    __slots__ = ("_by_label", "_selectors")

    def __init__(self) -> None:
        self._by_label = ByLabel()
        self._selectors: dict[str, Selector] = {}

    def copied(self) -> CapacityPool:
        other = CapacityPool()
        other._by_label = self._by_label.copied()
        other._selectors = dict(self._selectors)
        return other

    @property
    def mentioned_keys(self) -> Iterable[str]:
        """The labels that the topologies look at."""
        return self._by_label.mentioned_keys

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
        keys = frozenset(requirement.key for requirement in selector.requirements)
        self._by_label.put(capacity.key, limit, places_of_labels(selector), keys)

    def drop(self, key: str) -> None:
        self._selectors.pop(key, None)
        self._by_label.drop(key)

    def has(self, size: int, labels: Mapping[str, str]) -> bool:
        """Whether a volume of ``size`` (nano-bytes) can be made for a node with these labels."""
        return any(
            self._selectors[name].matches(labels)
            for listed in self._by_label.lists(labels)
            for _, name in listed[bisect_left(listed, (size, "")) :]
        )
