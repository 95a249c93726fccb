"""The settings of the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogSettings:
    """``format`` is ``json``, ``text`` or ``auto`` (JSON unless standard error is a terminal)."""

    format: str = "auto"
    verbosity: int = 2
