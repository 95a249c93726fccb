"""The settings of the log."""

from __future__ import annotations

from msgspec import Struct


class LogSettings(Struct, frozen=True):
    """``format`` is ``json``, ``text`` or ``auto`` (JSON unless standard error is a terminal)."""

    format: str = "auto"
    verbosity: int = 2
