"""A new configuration while running: from the file that changed, or from the watched ConfigMap.

It is checked whole before anything changes, and taken up between two scheduling cycles. One that is no good changes
nothing: the last good one stays, and a log line, an event and a metric say so. What only a start can change (the
Lease, the connection, limits) is named in a warning; what would leave decisions in between is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from scheduler.config.documents import MAX_BYTES
from scheduler.controller.calls.background import BackgroundCalls
from scheduler.controller.calls.plugin_calls import PluginCall
from scheduler.controller.report.instruments import Counter
from scheduler.controller.serve.tls import file_stamp
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.now import Now

POLL_SECONDS: Final = 5.0
BUSY_SECONDS: Final = 0.05
"""While a cycle waits for an extender, nothing can change; asked again after so long."""
MAX_ERROR: Final = 1000
"""Characters of an unexpected error that are repeated."""
APPLIED, REJECTED, UNCHANGED = "applied", "rejected", "unchanged"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class NewConfiguration:
    """A checked configuration. ``swap`` makes the engine go on with it; False: not now, ask again."""

    swap: Callable[[Now], bool]
    component_config: Mapping[str, Any]
    plugin_calls: Mapping[tuple[str, str, str], PluginCall]
    background: BackgroundCalls = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


Prepare = Callable[[bytes], NewConfiguration]
"""Checks a text. Raises ConfigurationError with every fault; nothing has changed by then."""


class ConfigurationReloader:
    """``offer`` texts from the event loop; ``run`` as a task. The newest text wins, the same one again is nothing.

    ``current`` is what was started with. ``taken`` is called after a swap, ``refused`` with what is wrong.
    """

    def __init__(
        self,
        prepare: Prepare,
        counter: Counter,
        clock: Callable[[], Now],
        *,
        current: bytes = b"",
        taken: Callable[[NewConfiguration], None] = lambda _: None,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.is_well = True
        """Whether the newest text is the one in force."""
        self._prepare = prepare
        self._clock = clock
        self._taken = taken
        self._refused = refused
        self._counts = {result: counter.child(result) for result in (APPLIED, REJECTED, UNCHANGED)}
        self._in_force = current
        self._offered: tuple[bytes, str] | None = None
        self._wake = asyncio.Event()

    def offer(self, text: bytes, origin: str) -> None:
        """A text that should be in force; ``origin`` is for messages."""
        self._offered = (text, origin)
        self._wake.set()

    def offer_data(self, data: Mapping[str, str] | None, key: str, origin: str) -> None:
        """What a ConfigMap holds; ``key`` "" is the only one there is. A deleted one changes nothing."""
        if data is None:
            log.warning("ConfigMap is gone, the configuration stays as it is", origin=origin)
            return
        names = [key] if key else list(data)
        if len(names) != 1 or names[0] not in data:
            wanted = f"no key {key!r}" if key else f"{len(data)} keys where one is wanted"
            self._reject(ConfigurationError([Fault("", f"the ConfigMap has {wanted}")]), origin)
            return
        # Half a surrogate pair passes JSON and is no UTF-8: the reader says so of the bytes.
        self.offer(data[names[0]].encode(errors="surrogatepass"), origin)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            offered, self._offered = self._offered, None
            if offered is not None:
                await self._take_or_reject(*offered)

    async def watch(self, path: str, seconds: float = POLL_SECONDS) -> None:
        """Offer the file whenever it, or what a link to it points at, changes. Until cancelled."""
        seen = file_stamp(path)
        while True:
            await asyncio.sleep(seconds)
            stamp = file_stamp(path)
            if stamp == seen or stamp is None:
                continue
            try:
                # A few kilobytes on a mounted volume: not worth a thread.
                with Path(path).open("rb") as file:  # noqa: ASYNC230
                    text = file.read(MAX_BYTES + 1)
            except OSError as error:
                log.warning("Configuration file can't be read, trying again", path=path, error=str(error))
                continue
            seen = stamp
            self.offer(text, path)

    async def _take_or_reject(self, text: bytes, origin: str) -> None:
        """An exception while a text is taken is that text's fault: the next one has its turn all the same."""
        try:
            await self._take(text, origin)
        except ConfigurationError as error:
            self._reject(error, origin)
        except Exception as error:
            log.exception("New configuration could not be taken up", origin=origin)
            self._reject(ConfigurationError([Fault("", f"{type(error).__name__}: {str(error)[:MAX_ERROR]}")]), origin)

    async def _take(self, text: bytes, origin: str) -> None:
        if text == self._in_force:
            self._counts[UNCHANGED].add()
            self.is_well = True
            return
        new = self._prepare(text)
        # A newer text need not wait for this one to be in force.
        while self._offered is None:
            if new.swap(self._clock()):
                break
            await asyncio.sleep(BUSY_SECONDS)
        else:
            return
        self._in_force = text
        self.is_well = True
        self._counts[APPLIED].add()
        for warning in new.warnings:
            log.warning(warning)
        log.info("Configuration reloaded", origin=origin)
        self._taken(new)

    def _reject(self, error: ConfigurationError, origin: str) -> None:
        self.is_well = False
        self._counts[REJECTED].add()
        log.error(
            "New configuration is wrong, the last good one stays",
            origin=origin,
            faults=[str(fault) for fault in error.faults],
        )
        self._refused(str(error))
