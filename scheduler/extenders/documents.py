"""Complete objects for extenders, which read fields of pods and nodes that Tandem itself does not.

Fields that decisions read are decoded into Structs and the rest is dropped. If an extender is sent pods or nodes, the
API server's JSON is kept beside them, without ``managedFields``, which are unused and half of its size (kube-scheduler
1.36 drops them, too).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.config.types import Extender as ExtenderConfiguration
from scheduler.objects.kinds import Kind, encode
from scheduler.objects.meta import ApiObject

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def kinds_sent_whole(extenders: Iterable[ExtenderConfiguration]) -> frozenset[Kind]:
    """The kinds whose complete objects are sent to some extender."""
    kinds: set[Kind] = set()
    for extender in extenders:
        asks_about_nodes = bool(extender.filter_verb or extender.prioritize_verb)
        if asks_about_nodes or extender.preempt_verb:
            kinds.add(Kind.POD)
        if asks_about_nodes and not extender.node_cache_capable:
            kinds.add(Kind.NODE)
    return frozenset(kinds)


class Documents:
    """The JSON of the latest observed version of objects, by kind and key; kept while the object exists."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[Kind, str], tuple[str, bytes]] = {}

    def put(self, kind: Kind, obj: ApiObject, document: bytes) -> None:
        """Stores an object's JSON; an empty one removes the older version's, which must not be sent in its place."""
        if document:
            self._kept[kind, obj.key] = obj.metadata.uid, _trimmed(document)
        elif self._kept:
            self._kept.pop((kind, obj.key), None)

    def remove(self, kind: Kind, obj: ApiObject) -> None:
        kept = self._kept.get((kind, obj.key))
        if kept is not None and kept[0] == obj.metadata.uid:
            del self._kept[kind, obj.key]

    def of(self, kind: Kind, obj: ApiObject) -> msgspec.Raw:
        """The object as JSON: complete if it is stored, else with the fields that Tandem reads."""
        kept = self._kept.get((kind, obj.key))
        return msgspec.Raw(kept[1] if kept is not None and kept[0] == obj.metadata.uid else encode(obj))

    def __len__(self) -> int:
        return len(self._kept)


def _trimmed(document: bytes) -> bytes:
    """The document without ``metadata.managedFields``."""
    if b'"managedFields"' not in document:
        return document
    fields = _FIELDS.decode(document)
    metadata = _FIELDS.decode(fields["metadata"])
    metadata.pop("managedFields", None)
    fields["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(fields)
