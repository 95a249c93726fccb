"""What the queueing hints of several volume plugins ask about a pod."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.volumes.csi import claim_key
from scheduler.framework.events import Hint, HintKeys, Wanted
from scheduler.objects.storage import PersistentVolumeClaim


def uses_claim(pod: PodInfo, claim: PersistentVolumeClaim) -> bool:
    """Whether one of the pod's volumes is this claim, that of a generic ephemeral volume included."""
    return any(claim_key(pod, volume) == claim.key for volume in pod.pod.spec.volumes)


def names_claim(pod: PodInfo, claim: PersistentVolumeClaim) -> bool:
    """Whether the pod uses the claim by a PersistentVolumeClaim volume; see ``uses_claim``."""
    return claim.metadata.namespace == pod.namespace and any(
        volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name == claim.metadata.name
        for volume in pod.pod.spec.volumes
    )


def its_claim_changed(pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> Hint:
    """A hint: a claim that the pod uses was added or changed."""
    return Hint.QUEUE if new is not None and uses_claim(pod, new) else Hint.SKIP


def its_named_claim_changed(
    pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
) -> Hint:
    """A hint: as ``its_claim_changed``, without generic ephemeral volumes."""
    return Hint.QUEUE if new is not None and names_claim(pod, new) else Hint.SKIP


def key_of_claim(claim: PersistentVolumeClaim) -> str:
    """All that these hints look at: the facet of a claim."""
    return claim.key


def _claims_of(pod: PodInfo) -> Wanted:
    return ((frozenset([key for volume in pod.pod.spec.volumes if (key := claim_key(pod, volume))]),),)


CLAIM_KEYS = HintKeys(_claims_of, lambda claim: (claim.key,))
