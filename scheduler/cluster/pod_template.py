"""Pods made from one template.

Ten thousand pods that wait are mostly copies of a few templates. A hint compares the event's object with what a pod
asks for, so copies get the same answer, and it is enough to ask for one of them. Two pods are of one class when nothing
differs that a hint may look at: namespace, labels, annotations, the controlling owner, and the whole spec. (The classes
of the filter cache will not do: their keys name the selectors that matched when the pod was tried, and a hint asks
about pods and selectors that came later.)

What remains is identity. Built-in hints look at it in two ways:

* "is the event's object this pod itself, or was it made for this pod?" The latter are ResourceClaims, whose names only
  the pod's status has. The pool asks for the pod that is or controls the object alone, and shares among the others.
* the claims of generic ephemeral volumes, which are named after the pod. Such pods are a class of their own each.
"""

from __future__ import annotations

from operator import is_
from typing import Final

import msgspec

from scheduler.cluster.pod_info import NOT_WORKED_OUT, PodInfo, TemplateKey
from scheduler.objects.meta import controller_of
from scheduler.objects.pod import PodSpec

_ENCODER = msgspec.json.Encoder(order="sorted")


MAX_BRIEF_BYTES: Final = 64 * 2**10
"""Bytes of a template as JSON beyond which its pods are large. An attempt takes up to 0.4 µs a byte: where they are
terms of preferred inter-pod affinity."""


class _Latest:
    """The template worked out last, with the parts of its pod that it was made from.

    Pods of one template come one after the other, and objects share equal parts (``objects/sharing.py``): then all of
    them have one key, instead of some KB of JSON each.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # One value, so that another thread sees no half of it.
        self._known: tuple[tuple[object, ...], TemplateKey | None] = ((), None)

    def key_of(self, info: PodInfo) -> TemplateKey | None:
        metadata = info.pod.metadata
        parts = metadata.namespace, metadata.labels, metadata.annotations, metadata.owner_references, info.pod.spec
        known, key = self._known
        if not known or not all(map(is_, parts, known)):
            key = _worked_out(info)
            self._known = parts, key
        return key


_LATEST: Final = _Latest()


def template_key(info: PodInfo) -> TemplateKey | None:
    """Equal for pods that differ in nothing but name, UID and status; None for a pod like no other."""
    known = info.template
    if known is not NOT_WORKED_OUT:
        return known
    key = info.template = _LATEST.key_of(info)
    return key


def encoded_bytes(info: PodInfo) -> int:
    """The size of what a template holds, as JSON: what keeping one costs, to within a small factor."""
    key = template_key(info)
    if key is None:
        return len(_ENCODER.encode(info.pod.metadata)) + len(_ENCODER.encode(info.pod.spec))
    return sum(len(part) for part in key)


def is_large(info: PodInfo) -> bool:
    """Whether an attempt at the pod may take long for its size alone."""
    key = template_key(info)
    size = encoded_bytes(info) if key is None else len(key[1]) + len(key[2]) + len(key[4])
    return size > MAX_BRIEF_BYTES


def template_of(info: PodInfo, spec: PodSpec) -> TemplateKey:
    """The key that the pod would have with another spec."""
    metadata = info.pod.metadata
    owner = controller_of(metadata)
    return (
        info.namespace,
        _ENCODER.encode(metadata.labels) if metadata.labels else b"",
        _ENCODER.encode(metadata.annotations) if metadata.annotations else b"",
        owner.uid if owner is not None else "",
        _ENCODER.encode(spec),
    )


def _worked_out(info: PodInfo) -> TemplateKey | None:
    spec = info.pod.spec
    if any(volume.ephemeral is not None for volume in spec.volumes):
        return None
    return template_of(info, spec)
