"""An engine's state as it is written: a pickle of its graph, in which API objects and PodInfos are numbers; and these.

They are most of it, and never change. So while the engine stands still they are only referred to, which takes a third
of the time, and they are encoded afterwards, by any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.kinds import Kind, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod


class Packed:
    """``bytes`` of it encodes it."""

    __slots__ = ("_infos", "_objects", "graph")

    def __init__(self, graph: bytes, objects: Sequence[ApiObject], infos: Sequence[PodInfo]) -> None:
        """``graph`` refers to both by their places."""
        self.graph = graph
        self._objects = objects
        self._infos = infos

    def parts(self) -> tuple[list[ApiObject], list[tuple[int, str]]]:
        """The objects, and of each PodInfo the place of its pod among them, and its node."""
        objects = list(self._objects)
        places = {id(each): place for place, each in enumerate(objects)}
        pods: list[tuple[int, str]] = []
        for info in self._infos:
            place = places.setdefault(id(info.pod), len(objects))
            if place == len(objects):
                objects.append(info.pod)
            pods.append((place, info.node_name))
        return objects, pods

    def __bytes__(self) -> bytes:
        return encoded(self.graph, *self.parts())


class Unpacked:
    """A state as it is read. Raises msgspec.DecodeError."""

    __slots__ = ("_found", "_parts", "graph")

    def __init__(self, data: bytes) -> None:
        self._parts = _DECODER.decode(data)
        self._found: dict[int, ApiObject] = {}
        self.graph = self._parts.graph

    def object_at(self, place: int) -> ApiObject:
        """The API object of this number. Raises IndexError, KeyError, msgspec.DecodeError."""
        found = self._found.get(place)
        if found is None:
            kind, data = self._parts.objects[place]
            found = self._found[place] = _DECODERS[kind].decode(data)
        return found

    def info_at(self, place: int) -> PodInfo:
        """The PodInfo of this number, which remembers nothing of its arithmetic. Raises as ``object_at``, and
        TypeError."""
        number, node_name = self._parts.pods[place]
        pod = self.object_at(number)
        if not isinstance(pod, Pod):
            raise TypeError(f"object {number} is no pod")
        return PodInfo(pod, node_name)


def encoded(graph: bytes, objects: Sequence[ApiObject], pods: Sequence[tuple[int, str]]) -> bytes:
    """A state as bytes; ``Unpacked`` reads them. ``pods``: see ``Packed.parts``."""
    # In the form of stimuli, ten times as quick as one Struct after another.
    return _ENCODE(_Parts(graph, [(kind_of(each).value, _ENCODE(each)) for each in objects], list(pods)))


class _Parts(msgspec.Struct, array_like=True):
    graph: bytes
    objects: list[tuple[str, bytes]]
    pods: list[tuple[int, str]]


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODER: Final = msgspec.msgpack.Decoder(_Parts)
_DECODERS: Final[dict[str, msgspec.msgpack.Decoder[ApiObject]]] = {
    kind.value: msgspec.msgpack.Decoder(kind.entry.type) for kind in Kind
}
