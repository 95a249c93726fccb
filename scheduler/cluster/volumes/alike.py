"""A key for pods that differ only in the identity of their claims, such as those of a StatefulSet: if one of them finds
no node, neither do the others while the cluster does not change."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
from msgspec.structs import replace

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import is_large, template_key, template_of
from scheduler.cluster.volumes.csi import attachable
from scheduler.cluster.volumes.facts import Volumes
from scheduler.cluster.volumes.migration import in_tree_plugin
from scheduler.objects.memo import has_many_parts
from scheduler.objects.pod import Volume
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.objects.volume_sources import DiskSources

_ENCODER = msgspec.json.Encoder(order="sorted")
_NO_SOURCE = dict.fromkeys(DiskSources.__struct_fields__)


def likeness_key(info: PodInfo, volumes: Volumes) -> Hashable | None:
    """``template_key`` of a pod without claims. For one whose claims are all bound, its template without their names,
    and what the claims and their volumes say; None for a pod like no other.

    A volume that a pod on a node uses, or that is attached somewhere, makes that node unlike the others for the pod:
    such a pod is like no other, too.
    """
    mounted = info.pod.spec.volumes
    if all(volume.persistent_volume_claim is None for volume in mounted):
        return template_key(info)
    # A key is kept for each pod that waits: none of large ones.
    if is_large(info) or has_many_parts(mounted) or any(volume.ephemeral is not None for volume in mounted):
        return None
    facts = []
    for volume in mounted:
        if volume.persistent_volume_claim is not None:
            fact = _claim_fact(f"{info.namespace}/{volume.persistent_volume_claim.claim_name}", volumes)
            if fact is None:
                return None
            facts.append(fact)
    unnamed = tuple([_unnamed(volume) for volume in mounted])
    return template_of(info, replace(info.pod.spec, volumes=unnamed)), tuple(facts)


def _unnamed(volume: Volume) -> Volume:
    claim = volume.persistent_volume_claim
    return volume if claim is None else replace(volume, persistent_volume_claim=replace(claim, claim_name=""))


def _claim_fact(key: str, volumes: Volumes) -> Hashable | None:
    """What decides about nodes for a claim, beside its identity; None if the identity does."""
    claim = volumes.claim(key)
    if claim is None or not claim.is_fully_bound or volumes.users(key):
        return None
    volume = volumes.volume(claim.spec.volume_name)
    if volume is None or volumes.is_attached(volume):
        return None
    return _of_claim(claim), _of_volume(volume), volume.is_claimed_by(claim)


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
