"""What is loaded only in clusters that have objects of some kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from scheduler.messages.stimuli import Stimulus
from scheduler.objects.kinds import Kind

DEVICES: Final = (Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE)
"""Clusters without any of these never evaluate a selector of devices."""

log = structlog.get_logger()


class OnceSeen:
    """Calls a slow function once, in a thread, when a reflector passes on the first objects. ``change`` is that
    reflector's: see ``Reading``."""

    def __init__(self, load: Callable[[], None]) -> None:
        self._load = load
        self._loading: asyncio.Task[None] | None = None

    def change(self, stimuli: Sequence[Stimulus]) -> Sequence[Stimulus]:
        if self._loading is None and stimuli:
            self._loading = asyncio.create_task(self._load_guarded(), name="loading")
        return stimuli

    async def settled(self) -> None:
        """Wait until nothing is being loaded."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    async def _load_guarded(self) -> None:
        try:
            await asyncio.to_thread(self._load)
        except Exception:
            # Its first use loads it again, and gets the error if that fails.
            log.exception("Could not be loaded ahead of its first use")
