"""Events: one collection served as two APIs, core/v1 (as stored) and events.k8s.io/v1."""

from __future__ import annotations

from typing import Any, Final

_RENAMED: Final = (
    # (core/v1, events.k8s.io/v1)
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)
_TO_NEW: Final = dict(_RENAMED)
_TO_CORE: Final = {new: core for core, new in _RENAMED}

_CORE_ALWAYS: Final[dict[str, Any]] = {
    "involvedObject": {}, "source": {}, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None,
    "reportingComponent": "", "reportingInstance": "",
}  # fmt: skip
"""Fields that core/v1 shows even if they are unset."""


def from_core(event: dict[str, Any]) -> dict[str, Any]:
    """A stored event in the form of events.k8s.io/v1."""
    return {
        _TO_NEW.get(field, field): value
        for field, value in event.items()
        if not (field in ("reportingComponent", "reportingInstance") and value == "")
    }


def to_core(event: dict[str, Any]) -> dict[str, Any]:
    """An event of either API in the stored form."""
    return {**_CORE_ALWAYS, **{_TO_CORE.get(field, field): value for field, value in event.items()}}
