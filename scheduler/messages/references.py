"""References to objects of the API server, as commands name them."""

from __future__ import annotations

import msgspec


class PodReference(msgspec.Struct, frozen=True):
    """Which pod: a name can be used again, so the UID goes along as a precondition."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"
