"""Resource versions as numbers, and which lines of a watch are older than what is known already.

A watch of an API server is in order, but not every proxy in between keeps the order, or says each line once. Within
one kind resource versions grow, and since Kubernetes 1.35 clients may compare them.
"""

from __future__ import annotations

from typing import Final

from scheduler.objects.meta import ApiObject

MAX_ENDINGS: Final = 1000
"""A line that comes after more deletions than this is left to the comparison with the API server's list."""


def version_of(one: ApiObject | None) -> int:
    """The resource version as a number; 0 where there is none, or it is no number."""
    return one.version_number if one is not None else 0


class Endings:
    """Which version the last deletions by a watch had, so that a line from before one brings nothing back."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}

    def note(self, key: str, version: int) -> None:
        self._versions.pop(key, None)
        self._versions[key] = version
        if len(self._versions) > MAX_ENDINGS:
            del self._versions[next(iter(self._versions))]

    def clear(self) -> None:
        self._versions.clear()

    def is_outdated(self, key: str, known: ApiObject | None, read: ApiObject) -> bool:
        """Whether the line says something older than what is known of this key. Versions that are no numbers
        can't be compared: then the newest line is the truth."""
        version = version_of(read)
        return 0 < version < (version_of(known) if known is not None else self._versions.get(key, 0))
