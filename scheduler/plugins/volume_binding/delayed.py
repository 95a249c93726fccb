"""Where the volumes of delayed claims come from on a node: existing ones, or ones to be made (volumes.md §2.2-§2.5).

In two forms that agree: ``sources_on`` says for one node which volumes these are, ``codes`` says for all rows whether
there are any. Both go through the claims in the same order, each taking the smallest volume that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.view import View
from scheduler.cluster.volumes.by_label import Ranked
from scheduler.cluster.volumes.facts import Volumes
from scheduler.cluster.volumes.pools import CapacityPool, VolumePool, reaches
from scheduler.cluster.volumes.ranked import Wish
from scheduler.cluster.volumes.reach import NO_RANK, Column
from scheduler.cluster.volumes.storage_selectors import labels_wanted_by, node_affinity_of, topologies_of
from scheduler.errors import SchedulerError
from scheduler.objects.node_selectors import topology_matches
from scheduler.objects.selectors import Selector, SelectorError
from scheduler.objects.storage import (
    NO_PROVISIONER,
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)


class UnusableClaim(SchedulerError):
    """A claim asks for something that makes no sense, or its class has gone meanwhile: the attempt ends as an error."""


class Sources(Struct, frozen=True):
    """What a node's answer is: all claims have a source, unless one of the two says why not."""

    is_bindable: bool = True
    has_space: bool = True
    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.is_bindable and self.has_space


Codes = npt.NDArray[np.int16]
Mask = npt.NDArray[np.bool_]

IS_BINDABLE, NOT_FOUND, TOO_SMALL = 0, 2, 4
"""A row's answer: all claims have a source, one has none, there is no room to make one."""

WhatItTakes = tuple[str, int, Selector, str, str, frozenset[str]]
"""Class, size, labels, volume mode, attributes class and access modes: claims with equal ones take the same volumes."""

NOT_BINDABLE = Sources(is_bindable=False)
NO_SPACE = Sources(has_space=False)


class DelayedClaim(Struct, frozen=True):
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
    what_it_takes: WhatItTakes

    def accepts(self, volume: PersistentVolume) -> bool:
        """Whether a free volume of sufficient size would do, on a node that reaches it."""
        return self.is_of_its_kind(volume) and self.labels.matches(volume.metadata.labels)

    def is_of_its_kind(self, volume: PersistentVolume) -> bool:
        """The same, whatever the volume's labels."""
        return (
            _is_like(volume, self.claim)
            and volume.storage_class == self.claim.storage_class
            and set(self.claim.spec.access_modes) <= set(volume.spec.access_modes)
        )

    def match(
        self, labels: Mapping[str, str], taken: set[str], searched: dict[WhatItTakes, Ranked | None]
    ) -> PersistentVolume | None:
        """The volume that this claim gets on a node with these labels, other than those ``taken`` by other claims.
        ``searched``: how far claims that take the same volumes have searched; None: to the end."""
        if self.set_aside is not None and self.set_aside.metadata.name not in taken:
            return self.set_aside if reaches(self.set_aside, labels) else None
        since = searched.get(self.what_it_takes, (self.size, ""))
        found = self.pool.smallest(since, labels, taken, self.accepts) if since is not None else None
        searched[self.what_it_takes] = None if found is None else (found.storage_capacity, found.metadata.name)
        return found

    def can_be_made(self, labels: Mapping[str, str]) -> Sources | None:
        """None if its provisioner can make a volume for a node with these labels; else the node's answer."""
        if self.storage_class.provisioner in ("", NO_PROVISIONER):
            return NOT_BINDABLE
        if not topology_matches(self.storage_class.allowed_topologies, labels):
            return NOT_BINDABLE
        if self.capacity is not None and not self.capacity.has(self.size, labels):
            return NO_SPACE
        return None

    def codes_if_made(self, volumes: Volumes) -> Codes:
        """What ``can_be_made`` says for every row of the table that volumes are kept for."""
        table = volumes.table
        if self.storage_class.provisioner in ("", NO_PROVISIONER):
            return np.full(table.size, NOT_FOUND, np.int16)
        codes = np.zeros(table.size, np.int16)
        if self.capacity is not None:
            codes[~self.capacity.rows_with(table, self.size)] = TOO_SMALL
        if (topologies := topologies_of(self.storage_class)) is not None:
            codes[~volumes.matching_rows(topologies)] = NOT_FOUND
        return codes


class DelayedClaims:
    """The delayed claims of one pod. ``sources`` is asked for a node's labels."""

    __slots__ = ("_to_match", "selected_nodes", "to_make")

    def __init__(self, claims: tuple[PersistentVolumeClaim, ...], view: View) -> None:
        """Raises UnusableClaim."""
        prepared = [_prepared(claim, view) for claim in claims]
        self.selected_nodes = frozenset(claim.selected_node for claim in claims if claim.selected_node is not None)
        """Nodes that were chosen before: nowhere else can the claims be bound."""
        self.to_make = [each for each in prepared if each.claim.selected_node is not None]
        # kube-scheduler's sort leaves the order of equal sizes open; here it is that of the pod's volumes.
        self._to_match = sorted((each for each in prepared if each.claim.selected_node is None), key=lambda c: c.size)

    def prepared(self, claim: PersistentVolumeClaim) -> DelayedClaim:
        """What is known of one of them."""
        return next(each for each in (*self.to_make, *self._to_match) if each.claim.key == claim.key)

    def sources(self, labels: Mapping[str, str]) -> Sources:
        """The answer of a node with these labels that no other selected node forbids.

        A claim that several volumes of the pod name needs a source for each of them, and takes the first.
        """
        taken: set[str] = set()
        searched: dict[WhatItTakes, Ranked | None] = {}
        bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        to_make = list(self.to_make)
        for each in self._to_match:
            volume = each.match(labels, taken, searched)
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

    def codes(self, volumes: Volumes) -> Codes:
        """What ``sources`` says for every row of the table that volumes are kept for: int16, IS_BINDABLE, NOT_FOUND or
        TOO_SMALL."""
        codes = np.zeros(volumes.table.size, np.int16)
        for _, short in self.shortfalls(volumes):
            codes = np.where(codes == IS_BINDABLE, short, codes)
            if (codes != IS_BINDABLE).all():
                break
        return codes

    def shortfalls(self, volumes: Volumes) -> Iterator[tuple[DelayedClaim, Codes]]:
        """The same claim by claim, for those that no existing volume serves somewhere: IS_BINDABLE where one does."""
        made: dict[tuple[str, int], Codes] = {}

        def if_made(claim: DelayedClaim) -> Codes:
            key = claim.storage_class.metadata.name, claim.size
            if key not in made:
                made[key] = claim.codes_if_made(volumes)
            return made[key]

        for each in self.to_make:
            yield each, if_made(each)
        for each, served in zip(self._to_match, _served(self._to_match, volumes), strict=True):
            if not served.all():
                yield each, np.where(served, np.int16(IS_BINDABLE), if_made(each))


def _served(claims: Sequence[DelayedClaim], volumes: Volumes) -> Iterator[Mask]:
    """For one claim after the other, the rows on which it gets an existing volume: bool, one a row."""
    table = volumes.table
    set_aside = _SetAside(volumes)
    wishes: dict[str, list[Wish]] = {}
    pools: dict[str, VolumePool] = {}
    ranks: dict[WhatItTakes, Column] = {}
    own: list[Mask | None] = []
    for each in claims:
        name = each.claim.storage_class
        pools[name] = each.pool
        if each.what_it_takes not in ranks:
            ranks[each.what_it_takes] = each.pool.ranks(each.size, each.labels, each.is_of_its_kind)
        matched, searching = set_aside.match(each) if each.set_aside is not None else (None, None)
        own.append(matched)
        wishes.setdefault(name, []).append(Wish(ranks[each.what_it_takes], searching))
    given = {name: pool.given(table, wishes[name]) for name, pool in pools.items()}
    for each, matched in zip(claims, own, strict=True):
        found: Mask = next(given[each.claim.storage_class]) != NO_RANK
        yield found if matched is None else matched | found


class _SetAside:
    """Assigns volumes that are set aside for a claim: one claim after the other, for all rows at once."""

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes
        self._given: dict[str, Mask] = {}
        """Volume → rows on which its claim got it, whether it reaches them or not."""

    def match(self, claim: DelayedClaim) -> tuple[Mask, Mask]:
        """Rows on which the claim gets its volume, and those where it has it already: there it looks for another."""
        assert claim.set_aside is not None
        name, size = claim.set_aside.metadata.name, self._volumes.table.size
        searching = self._given.get(name, np.zeros(size, np.bool_))
        selector = node_affinity_of(claim.set_aside)
        reached = self._volumes.matching_rows(selector) if selector is not None else np.ones(size, np.bool_)
        matched = reached & ~searching
        self._given[name] = searching | matched
        return matched, searching


def _prepared(claim: PersistentVolumeClaim, view: View) -> DelayedClaim:
    class_name = claim.storage_class
    if not class_name:
        raise UnusableClaim(f'no class for claim "{claim.key}"')
    storage_class = view.find(StorageClass, class_name)
    if storage_class is None:
        raise UnusableClaim(f'failed to find storage class "{class_name}"')
    try:
        labels = labels_wanted_by(claim)
    except SelectorError as error:
        raise UnusableClaim(f"error creating internal label selector for claim: {claim.key}: {error}") from error
    size = claim.requested_storage
    pool = view.volumes.pool(class_name)
    driver = view.find(CSIDriver, storage_class.provisioner)
    watches_capacity = size is not None and driver is not None and bool(driver.spec.storage_capacity)
    return DelayedClaim(
        claim,
        storage_class,
        size or 0,
        labels,
        pool,
        _set_aside(claim, size or 0, pool),
        view.volumes.capacity(class_name) if watches_capacity else None,
        (
            class_name,
            size or 0,
            labels,
            claim.volume_mode,
            claim.volume_attributes_class,
            frozenset(claim.spec.access_modes),
        ),
    )


def _set_aside(claim: PersistentVolumeClaim, size: int, pool: VolumePool) -> PersistentVolume | None:
    for volume in pool.set_aside_for(claim):
        if volume.storage_capacity >= size and _is_like(volume, claim) and not volume.is_terminating:
            return volume
    return None


def _is_like(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return volume.volume_mode == claim.volume_mode and volume.volume_attributes_class == claim.volume_attributes_class
