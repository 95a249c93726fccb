"""Limits of the pages that servers and commands agree on."""

from __future__ import annotations

from typing import Final

MAX_WAITING_LISTED: Final = 5_000
"""Waiting pods that the queue's page lists one by one; the counts beside them are complete."""

MAX_GROUPS_LISTED: Final = 500
"""Groups of waiting pods, by workload and reason, that the queue's page lists: more than a person reads."""
