"""The watches' present objects by name, for parts of the shell that read single objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.controller.watch.reflector import Reflector
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import Stimulus
from scheduler.objects.kinds import Kind, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod


class KnownObjects:
    """Reads the reflectors passed to ``read_from``; empty before that."""

    def __init__(self) -> None:
        self._reflectors: dict[Kind, Reflector] = {}

    def read_from(self, reflectors: Sequence[Reflector]) -> None:
        self._reflectors = {reflector.kind: reflector for reflector in reflectors}

    def get(self, kind: Kind, key: str) -> ApiObject | None:
        reflector = self._reflectors.get(kind)
        return reflector.known.get(key) if reflector is not None else None

    def all(self, kind: Kind) -> Mapping[str, ApiObject]:
        """The present objects of a kind, by key."""
        reflector = self._reflectors.get(kind)
        return reflector.known if reflector is not None else {}

    def answered(self, written: ApiObject) -> list[Stimulus]:
        """See ``Mirror.answered``."""
        reflector = self._reflectors.get(kind_of(written))
        return reflector.mirror.answered(written) if reflector is not None else []

    def node_named(self, name: str) -> Node | None:
        found = self.get(Kind.NODE, name)
        return found if isinstance(found, Node) else None

    def node_count(self) -> int:
        reflector = self._reflectors.get(Kind.NODE)
        return len(reflector.known) if reflector is not None else 0

    def node_of(self, pod: PodReference) -> str | None:
        """Where the pod is bound, "" for nowhere; None: there is no pod of this UID."""
        found = self.get(Kind.POD, pod.key)
        return found.spec.node_name if isinstance(found, Pod) and found.uid == pod.uid else None

    def creation_of(self, pod: str) -> str | None:
        """The creation timestamp of the pod ``namespace/name``."""
        found = self.get(Kind.POD, pod)
        return found.metadata.creation_timestamp if found is not None else None
