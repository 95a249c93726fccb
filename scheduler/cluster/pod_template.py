"""Pods made from one template.

Ten thousand pods that wait are mostly copies of a few templates. A hint compares the event's object with what a pod
asks for, so copies get the same answer, and it is enough to ask for one of them. Two pods are of one class when nothing
differs that a hint may look at: namespace, labels, annotations, the controlling owner, and the whole spec. (The classes
of the filter cache will not do: their keys name the selectors that matched when the pod was tried, and a hint asks
about pods and selectors that came later.)

What remains is identity. Built-in hints look at it in two ways:

* "is the event's object this pod itself?" The pool asks for that pod alone, and shares among the others only.
* the claims of generic ephemeral volumes, which are named after the pod. Such pods are a class of their own each.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import msgspec

from scheduler.cluster.pod_info import NOT_WORKED_OUT, PodInfo
from scheduler.objects.meta import controller_of

_ENCODER = msgspec.json.Encoder(order="sorted")


class TemplateKey(NamedTuple):
    """Stands for a template: a digest of what pods made from it have in common, and how long that is."""

    digest: bytes
    nbytes: int


def template_key(info: PodInfo) -> TemplateKey | None:
    """Equal for pods that differ in nothing but name, UID and status; None for a pod like no other."""
    known = info.template
    if known is NOT_WORKED_OUT:
        known = info.template = _worked_out(info)
    return known  # type: ignore[no-any-return]


def _worked_out(info: PodInfo) -> TemplateKey | None:
    spec = info.pod.spec
    if any(volume.ephemeral is not None for volume in spec.volumes):
        return None
    metadata = info.pod.metadata
    owner = controller_of(metadata)
    written = _ENCODER.encode(
        (info.namespace, metadata.labels, metadata.annotations, owner.uid if owner is not None else "", spec)
    )
    return TemplateKey(blake2b(written, digest_size=32).digest(), len(written))
