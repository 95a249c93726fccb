"""How long a test waits for what should come at once."""

from __future__ import annotations

from typing import Final

WAIT_SECONDS: Final = 30.0
"""Seconds, longer than a busy machine takes for anything here: only a failing test waits until then."""
