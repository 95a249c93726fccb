"""What a new configuration changes, field by field: for the log, the event and ``/configz`` of a reload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

MAX_CHANGES: Final = 100
"""Changes that are listed; a line says that there are more."""
MAX_VALUE: Final = 200
"""Characters of a value that are shown."""

_NAMES: Final = ("schedulerName", "name", "urlPrefix")
"""Fields by which the members of lists are matched, so that one more is not a change of all that follow it."""


class Change(NamedTuple):
    """``path``: ``profiles[tandem-scheduler].plugins.score.enabled[ImageLocality].weight``. None: not stated."""

    path: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        if self.old is None:
            return f"{self.path}: added {self.new}"
        return f"{self.path}: removed {self.old}" if self.new is None else f"{self.path}: {self.old} → {self.new}"


def changes_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """The differences of two documents in the order of their fields, at most ``MAX_CHANGES`` and one that says so."""
    found: list[Change] = []
    for change in _differences("", old, new):
        if len(found) == MAX_CHANGES:
            found.append(Change("…", None, "and more"))
            break
        found.append(change)
    return tuple(found)


def _differences(path: str, old: Any, new: Any) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in (*old, *(key for key in new if key not in old)):
            yield from _differences(f"{path}.{key}" if path else str(key), old.get(key), new.get(key))
        return
    if isinstance(old, list) and isinstance(new, list):
        old_named, new_named = _by_name(old), _by_name(new)
        if old_named is not None and new_named is not None:
            for name in (*old_named, *(name for name in new_named if name not in old_named)):
                yield from _differences(f"{path}[{name}]", old_named.get(name), new_named.get(name))
            common = [name for name in old_named if name in new_named]
            if common != [name for name in new_named if name in old_named]:
                yield Change(f"{path} (order)", ", ".join(old_named), ", ".join(new_named))
            return
    yield Change(path, _shown(old), _shown(new))


def _by_name(members: list[Any]) -> dict[str, Any] | None:
    """The members by their name; None unless each has one of its own."""
    named: dict[str, Any] = {}
    for member in members:
        name = next((member[key] for key in _NAMES if key in member), None) if isinstance(member, Mapping) else None
        if not isinstance(name, str) or name in named:
            return None
        named[name] = member
    return named


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"
