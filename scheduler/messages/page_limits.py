"""Limits of the pages that servers and commands agree on."""

from __future__ import annotations

from typing import Final

MAX_WAITING_LISTED: Final = 5_000
"""Waiting pods that the queue's page lists one by one; the counts beside them are complete."""
