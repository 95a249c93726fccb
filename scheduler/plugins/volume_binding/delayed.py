"""Where the volumes of delayed claims come from on a node: existing ones, or ones to be made (volumes.md §2.2-§2.5).

The answer depends on nothing but the labels of the node that some selector looks at, and on whether it is the node that
was selected before: so it is worked out once for all nodes that agree in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.cluster.volumes.pools import CapacityPool, VolumePool, reaches
from scheduler.errors import SchedulerError
from scheduler.objects.kinds import Kind
from scheduler.objects.node_selectors import topology_matches
from scheduler.objects.selectors import EVERYTHING, Selector, SelectorError, parse_selector
from scheduler.objects.storage import NO_PROVISIONER

if TYPE_CHECKING:
    from scheduler.cluster.view import View
    from scheduler.objects.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim, StorageClass


class UnusableClaim(SchedulerError):
    """A claim asks for something that makes no sense, or its class has gone meanwhile: the attempt ends as an error."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a node's answer is: all claims have a source, unless one of the two says why not."""

    is_bindable: bool = True
    has_space: bool = True
    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.is_bindable and self.has_space


NOT_BINDABLE = Sources(is_bindable=False)
NO_SPACE = Sources(has_space=False)


@dataclass(frozen=True, slots=True)
class _Claim:
    """One delayed claim with all that does not depend on the node."""

    claim: PersistentVolumeClaim
    storage_class: StorageClass
    size: int
    """Nano-bytes; 0 without a request."""
    labels: Selector
    """What a volume's labels must be."""
    pool: VolumePool
    set_aside: PersistentVolume | None
    """A volume whose claimRef is this claim: no other will do."""
    capacity: CapacityPool | None
    """None where capacity is no concern."""

    def accepts(self, volume: PersistentVolume) -> bool:
        """Whether a free volume of sufficient size would do, on a node that reaches it."""
        return (
            _is_like(volume, self.claim)
            and self.labels.matches(volume.metadata.labels)
            and volume.storage_class == self.claim.storage_class
            and set(self.claim.spec.access_modes) <= set(volume.spec.access_modes)
        )

    def match(self, labels: Mapping[str, str], taken: set[str]) -> PersistentVolume | None:
        """The volume that this claim gets on a node with these labels, but those ``taken`` by other claims."""
        if self.set_aside is not None and self.set_aside.metadata.name not in taken:
            return self.set_aside if reaches(self.set_aside, labels) else None
        return self.pool.smallest(self.size, labels, taken, self.accepts)

    def can_be_made(self, labels: Mapping[str, str]) -> Sources | None:
        """None if its provisioner can make a volume for a node with these labels; else the node's answer."""
        if self.storage_class.provisioner in ("", NO_PROVISIONER):
            return NOT_BINDABLE
        if not topology_matches(self.storage_class.allowed_topologies, labels):
            return NOT_BINDABLE
        if self.capacity is not None and not self.capacity.has(self.size, labels):
            return NO_SPACE
        return None


class DelayedClaims:
    """The delayed claims of one pod. ``sources`` is asked for a node's labels."""

    __slots__ = ("_to_make", "_to_match", "keys", "selected_nodes")

    def __init__(self, claims: tuple[PersistentVolumeClaim, ...], view: View) -> None:
        """Raises UnusableClaim."""
        prepared = [_prepared(claim, view) for claim in claims]
        self.selected_nodes = frozenset(claim.selected_node for claim in claims if claim.selected_node is not None)
        """Nodes that were chosen before: nowhere else can the claims be bound."""
        self._to_make = [each for each in prepared if each.claim.selected_node is not None]
        # kube-scheduler's sort leaves the order of equal sizes open; here it is that of the pod's volumes.
        self._to_match = sorted((each for each in prepared if each.claim.selected_node is None), key=lambda c: c.size)
        self.keys = tuple(sorted(_keys(prepared)))
        """Labels that the answers depend on."""

    def sources(self, labels: Mapping[str, str]) -> Sources:
        """The answer of a node with these labels that no other selected node forbids.

        A claim that several volumes of the pod name needs a source for each of them, and takes the first.
        """
        taken: set[str] = set()
        bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        to_make = list(self._to_make)
        for each in self._to_match:
            volume = each.match(labels, taken)
            if volume is None:
                to_make.append(each)
            else:
                taken.add(volume.metadata.name)
                bindings.append((volume, each.claim))
        for each in to_make:
            refused = each.can_be_made(labels)
            if refused is not None:
                return refused
        bound = {claim.key: (volume, claim) for volume, claim in reversed(bindings)}
        made = {each.claim.key: each.claim for each in to_make if each.claim.key not in bound}
        return Sources(bindings=tuple(reversed(bound.values())), provisions=tuple(made.values()))

    def sources_on(self, node_name: str, labels: Mapping[str, str]) -> Sources:
        """The answer of the node of this name."""
        return NOT_BINDABLE if self.selected_nodes - {node_name} else self.sources(labels)


def _prepared(claim: PersistentVolumeClaim, view: View) -> _Claim:
    class_name = claim.storage_class
    if not class_name:
        raise UnusableClaim(f'no class for claim "{claim.key}"')
    storage_class: StorageClass | None = view.get(Kind.STORAGE_CLASS, class_name)
    if storage_class is None:
        raise UnusableClaim(f'failed to find storage class "{class_name}"')
    try:
        labels = parse_selector(claim.spec.selector) if claim.spec.selector is not None else EVERYTHING
    except SelectorError as error:
        raise UnusableClaim(f"error creating internal label selector for claim: {claim.key}: {error}") from error
    size = claim.requested_storage
    pool = view.volumes.pool(class_name)
    driver: CSIDriver | None = view.get(Kind.CSI_DRIVER, storage_class.provisioner)
    watches_capacity = size is not None and driver is not None and bool(driver.spec.storage_capacity)
    return _Claim(
        claim,
        storage_class,
        size or 0,
        labels,
        pool,
        _set_aside(claim, size or 0, pool),
        view.volumes.capacity(class_name) if watches_capacity else None,
    )


def _set_aside(claim: PersistentVolumeClaim, size: int, pool: VolumePool) -> PersistentVolume | None:
    for volume in pool.set_aside_for(claim):
        if volume.storage_capacity >= size and _is_like(volume, claim) and not volume.is_terminating:
            return volume
    return None


def _is_like(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return volume.volume_mode == claim.volume_mode and volume.volume_attributes_class == claim.volume_attributes_class


def _keys(claims: list[_Claim]) -> set[str]:
    keys: set[str] = set()
    for each in claims:
        if each.claim.selected_node is None:
            keys.update(each.pool.mentioned_keys)
            if each.set_aside is not None and each.set_aside.spec.node_affinity is not None:
                keys.update(_affinity_keys(each.set_aside))
        for term in each.storage_class.allowed_topologies:
            keys.update(part.key for part in term.match_label_expressions)
        if each.capacity is not None:
            keys.update(each.capacity.mentioned_keys)
    return keys


def _affinity_keys(volume: PersistentVolume) -> set[str]:
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    return {part.key for term in terms for part in term.match_expressions}
