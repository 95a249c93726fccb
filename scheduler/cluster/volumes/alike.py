"""A key for pods that differ only in the identity of their claims, such as those of a StatefulSet: if one of them finds
no node, neither do the others while the cluster does not change."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import is_large, template_key
from scheduler.cluster.volumes.csi import Attachable, attachable
from scheduler.cluster.volumes.facts import Volumes
from scheduler.cluster.volumes.migration import in_tree_plugin
from scheduler.objects.memo import has_many_parts
from scheduler.objects.pod import PodSpec, Volume
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.objects.volume_sources import DiskSources

_ENCODER = msgspec.json.Encoder(order="sorted")
_NO_SOURCE = dict.fromkeys(DiskSources.__struct_fields__)

_MAX_REMEMBERED: Final = 2048
"""Objects of one kind whose facts are remembered, for pods that are tried and wait in turn: 6 MB of ordinary ones."""
_MAX_BYTES: Final = 4096
"""Of an object, as JSON: an entry keeps the whole object, after its deletion too, so of a longer one nothing is
remembered."""

Asked = TypeVar("Asked")
Fact = TypeVar("Fact")


class _Facts(Generic[Asked, Fact]):
    """A function of immutable objects whose latest results are remembered by the objects' identity, since a hash over
    all their fields would cost as much."""

    __slots__ = ("_known", "_work_out")

    def __init__(self, work_out: Callable[[Asked], Fact]) -> None:
        self._work_out = work_out
        self._known: dict[int, tuple[Asked, Fact]] = {}

    def of(self, asked: Asked) -> Fact:
        known = self._known.get(id(asked))
        if known is not None:
            # Kept alive by its entry, so no other object has its identity.
            return known[1]
        fact = self._work_out(asked)
        if len(_ENCODER.encode(asked)) <= _MAX_BYTES:
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            self._known[id(asked)] = asked, fact
        return fact


def likeness_key(info: PodInfo, volumes: Volumes) -> Hashable | None:
    """``template_key`` of a pod without claims. For one whose claims are all bound, its template without their names,
    and what the claims and their volumes say; None for a pod like no other.

    A volume that a pod on a node uses, or that is attached somewhere, makes that node unlike the others for the pod:
    such a pod is like no other, too. Nor is one that names a volume twice: it takes one place less of a node's limit.
    """
    mounted = info.pod.spec.volumes
    if not mounted or all(volume.persistent_volume_claim is None for volume in mounted):
        return template_key(info)
    # The key is kept for as long as the pod waits: large pods get none.
    if is_large(info) or has_many_parts(mounted) or any(volume.ephemeral is not None for volume in mounted):
        return None
    facts = []
    counted: set[Attachable] = set()
    for volume in mounted:
        if volume.persistent_volume_claim is not None:
            fact = _claim_fact(f"{info.namespace}/{volume.persistent_volume_claim.claim_name}", volumes, counted)
            if fact is None:
                return None
            facts.append(fact)
    template = template_key(info)
    return (*template[:-1], _SPECS.of(info.pod.spec), *facts) if template is not None else None


def _without_names(spec: PodSpec) -> bytes:
    """A spec without the names of its claims, as JSON."""
    return _ENCODER.encode(replace(spec, volumes=tuple([_unnamed(volume) for volume in spec.volumes])))


def _unnamed(volume: Volume) -> Volume:
    claim = volume.persistent_volume_claim
    return volume if claim is None else replace(volume, persistent_volume_claim=replace(claim, claim_name=""))


def _claim_fact(key: str, volumes: Volumes, counted: set[Attachable]) -> Hashable | None:
    """What decides about nodes for a claim, beside its identity; None if the identity does. ``counted``: the volumes of
    the pod's claims before, to which this one's is added."""
    claim = volumes.claim(key)
    if claim is None or not claim.is_fully_bound or volumes.users(key):
        return None
    volume = volumes.volume(claim.spec.volume_name)
    if volume is None or volumes.is_attached(volume):
        return None
    found = attachable(volume)
    if found is not None:
        if found in counted:
            return None
        counted.add(found)
    return _CLAIMS.of(claim), _VOLUMES.of(volume), volume.is_claimed_by(claim)


def _of_claim(claim: PersistentVolumeClaim) -> Hashable:
    metadata = claim.metadata
    return (
        claim.storage_class,
        metadata.deletion_timestamp is not None,
        _ENCODER.encode((replace(claim.spec, volume_name=""), claim.status)),
    )


def _of_volume(volume: PersistentVolume) -> Hashable:
    metadata, attached = volume.metadata, attachable(volume)
    return (
        attached.driver if attached is not None else "",
        in_tree_plugin(volume.spec),
        volume.storage_class,
        metadata.deletion_timestamp is not None,
        _ENCODER.encode((replace(volume.spec, claim_ref=None, **_NO_SOURCE), volume.status, metadata.labels)),
    )


_SPECS: Final = _Facts(_without_names)
_CLAIMS: Final = _Facts(_of_claim)
_VOLUMES: Final = _Facts(_of_volume)
