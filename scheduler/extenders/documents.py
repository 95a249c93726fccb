"""Whole objects for extenders, which read fields of pods and nodes that Tandem itself does not.

What a decision reads is decoded into Structs and the rest is dropped. Where an extender is sent pods or nodes, the JSON
that the API server sent is kept beside them, without ``managedFields``, which nobody reads and which are half of it
(kube-scheduler 1.36 drops them too).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.config.types import Extender as ExtenderConfiguration
from scheduler.objects.kinds import Kind, encode
from scheduler.objects.meta import ApiObject

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def kinds_sent_whole(extenders: Iterable[ExtenderConfiguration]) -> frozenset[Kind]:
    """The kinds of which some extender is sent whole objects."""
    kinds: set[Kind] = set()
    for extender in extenders:
        asks_about_nodes = bool(extender.filter_verb or extender.prioritize_verb)
        if asks_about_nodes or extender.preempt_verb:
            kinds.add(Kind.POD)
        if asks_about_nodes and not extender.node_cache_capable:
            kinds.add(Kind.NODE)
    return frozenset(kinds)


class Documents:
    """By kind and key, the JSON of the latest version that was observed; kept for as long as the object exists."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[Kind, str], tuple[str, bytes]] = {}

    def put(self, kind: Kind, obj: ApiObject, document: bytes) -> None:
        """Empty for an object whose JSON is not at hand: an older version's is not sent in its place."""
        if document:
            self._kept[kind, obj.key] = obj.metadata.uid, _trimmed(document)
        elif self._kept:
            self._kept.pop((kind, obj.key), None)

    def remove(self, kind: Kind, obj: ApiObject) -> None:
        kept = self._kept.get((kind, obj.key))
        if kept is not None and kept[0] == obj.metadata.uid:
            del self._kept[kind, obj.key]

    def of(self, kind: Kind, obj: ApiObject) -> msgspec.Raw:
        """The object as JSON: whole if it is kept, else as far as it was read."""
        kept = self._kept.get((kind, obj.key))
        return msgspec.Raw(kept[1] if kept is not None and kept[0] == obj.metadata.uid else encode(obj))

    def __len__(self) -> int:
        return len(self._kept)


def _trimmed(document: bytes) -> bytes:
    """Without ``metadata.managedFields``."""
    if b'"managedFields"' not in document:
        return document
    fields = _FIELDS.decode(document)
    metadata = _FIELDS.decode(fields["metadata"])
    metadata.pop("managedFields", None)
    fields["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(fields)
