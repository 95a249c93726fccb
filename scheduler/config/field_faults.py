"""Faults in the words of Kubernetes' field errors: ``path: Invalid value: 3: should be …``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from scheduler.config.durations import Duration
from scheduler.errors import Fault

MAX_SHOWN: Final = 1000
"""Maximum characters of a wrong value in a message."""


def invalid(path: str, value: object, detail: str) -> Fault:
    """The fault ``Invalid value: <value>: <detail>``."""
    return Fault(path, f"Invalid value: {shown(value)}: {detail}")


def required(path: str, detail: str = "") -> Fault:
    """The fault ``Required value``, with an optional reason."""
    return Fault(path, f"Required value: {detail}" if detail else "Required value")


def duplicate(path: str, value: object) -> Fault:
    """The fault ``Duplicate value: <value>``."""
    return Fault(path, f"Duplicate value: {shown(value)}")


def too_many(path: str, count: int, most: int) -> Fault:
    """The fault ``Too many: <count>: must have at most <most> items``."""
    return Fault(path, f"Too many: {count}: must have at most {most} items")


def forbidden(path: str, detail: str) -> Fault:
    """The fault ``Forbidden: <detail>``."""
    return Fault(path, f"Forbidden: {detail}")


def not_supported(path: str, value: object, supported: Iterable[str]) -> Fault:
    """The fault ``Unsupported value: "x": supported values: "a", "b"``, with the values in the order given."""
    choices = ", ".join(f'"{choice}"' for choice in supported)
    return Fault(path, f"Unsupported value: {shown(value)}: supported values: {choices}")


def shown(value: object) -> str:
    """A value as Kubernetes shows it in an error: strings quoted, durations in Go's form, the rest as JSON."""
    if isinstance(value, Duration):
        return str(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def child(path: str, name: str) -> str:
    """The path of a field of what is at ``path``; the root's path is empty."""
    return f"{path}.{name}" if path else name
