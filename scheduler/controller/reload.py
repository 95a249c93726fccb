"""Reloads the configuration while running: from the changed file or from the watched ConfigMap.

It is checked as a whole before anything changes, and applied between two scheduling cycles. An invalid one changes
nothing: the last valid one stays, and a log line, an event and a metric say so. Settings that need a restart (the
Lease, the connection, limits) are named in a warning; a change that would leave mixed decisions is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct, field

from scheduler.config.changes import changes_between
from scheduler.config.documents import MAX_BYTES
from scheduler.config.positions import placed
from scheduler.controller.between_cycles import BetweenCycles
from scheduler.controller.calls.background import BackgroundCalls
from scheduler.controller.calls.plugin_calls import PluginCall
from scheduler.controller.report.instruments import Counter
from scheduler.controller.serve.tls import file_stamp
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.now import Now
from scheduler.objects.timestamps import format_seconds

POLL_SECONDS: Final = 5.0
BUSY_SECONDS: Final = 0.05
"""Seconds between two tries to apply it while no pod is taken."""
MAX_ERROR: Final = 1000
"""Characters of one fault, or of an unexpected error, that are repeated."""
MAX_SHOWN: Final = 50
"""Faults or warnings of a text that are logged and shown."""
APPLIED, REJECTED, UNCHANGED = "applied", "rejected", "unchanged"

log = structlog.get_logger()


class NewConfiguration(Struct, frozen=True):
    """A checked configuration. ``swap`` applies it to the engine; False: not possible now, try again."""

    swap: Callable[[Now], bool]
    component_config: Mapping[str, Any]
    plugin_calls: Mapping[tuple[str, str, str], PluginCall]
    background: BackgroundCalls = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    tandem_config: Mapping[str, Any] = field(default_factory=dict)
    abandoned: Callable[[], Mapping[str, int]] = dict
    """Profiles that the swap would drop, with the number of pods that wait under their names. Ask before it."""

    @property
    def document(self) -> Mapping[str, Any]:
        """All settings as one document; those of Tandem under ``tandem``."""
        return {**self.component_config, "tandem": self.tandem_config}


class InForce(Struct, frozen=True):
    """A text, and all settings that hold with it as one document."""

    text: bytes = b""
    document: Mapping[str, Any] = field(default_factory=dict)


class Reload(msgspec.Struct, frozen=True, rename="camel"):
    """The last reload, as ``/configz`` shows it. ``result``: APPLIED or REJECTED."""

    at: str
    origin: str
    result: str
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


Announce = Callable[[str, str, str], None]
"""Takes the type, the reason and the note of an event about this scheduler."""

Build = Callable[[], NewConfiguration]
"""Makes the parts that a text states, without changing anything. Raises ConfigurationError with every fault."""

Prepare = Callable[[bytes], Build]
"""Reads a text, in a thread: a MiB of YAML takes most of a second. Raises ConfigurationError with every fault."""


class ConfigurationReloader:
    """``offer`` texts from the event loop; ``run`` as a task. The newest text wins; a repeated one is ignored.

    ``started`` is what was started with. ``taken`` is called with a swap.
    """

    def __init__(
        self,
        prepare: Prepare,
        counter: Counter,
        clock: Callable[[], Now],
        between_cycles: BetweenCycles,
        *,
        started: InForce | None = None,
        taken: Callable[[NewConfiguration], None] = lambda _: None,
        announce: Announce = lambda _type, _reason, _note: None,
    ) -> None:
        self.is_well = True
        """Whether the newest text is in force."""
        self.last: Reload | None = None
        """The last reload. If a text was put back to the one in force, the reload that brought that one."""
        self._prepare = prepare
        self._clock = clock
        self._between_cycles = between_cycles
        self._taken = taken
        self._announce = announce
        self._counts = {result: counter.child(result) for result in (APPLIED, REJECTED, UNCHANGED)}
        self._in_force = started or InForce()
        self._applied: Reload | None = None
        """The reload that the text in force came with."""
        self._offered: tuple[bytes | ConfigurationError, str] | None = None
        """The last thing offered, with its origin: a text, or the error for which there is none."""
        self._wake = asyncio.Event()

    def offer(self, text: bytes, origin: str) -> None:
        """Offer a new text; ``origin`` is for messages."""
        self._put(text, origin)

    def offer_data(self, data: Mapping[str, str] | None, key: str, origin: str) -> None:
        """Offer a ConfigMap's data; ``key`` "" stands for its only key. A deleted ConfigMap changes nothing."""
        if data is None:
            self._is_gone("ConfigMap", origin)
            return
        names = [key] if key else list(data)
        if len(names) != 1 or names[0] not in data:
            wanted = f"no key {key!r}" if key else f"{len(data)} keys where one is wanted"
            # In place of an older text that is still being read: it must not be applied after this.
            self._put(ConfigurationError([Fault("", f"the ConfigMap has {wanted}")]), origin)
            return
        # JSON may hold half a surrogate pair, which is not valid UTF-8: it is passed on, and the reader reports it.
        self.offer(data[names[0]].encode(errors="surrogatepass"), origin)

    def is_absent(self, origin: str) -> None:
        """The ConfigMap was not there at the start: what was started with holds until it is."""
        log.warning("ConfigMap is not there, the configuration stays as it is", origin=origin)
        self._announce("Warning", "ConfigurationGone", f"{origin} is not there, the configuration stays as it is")

    async def run(self) -> None:
        """Apply offered texts until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            offered, self._offered = self._offered, None
            if offered is not None:
                await self._take_or_reject(*offered)

    async def watch(self, path: str, seconds: float = POLL_SECONDS) -> None:
        """Offer the file whenever it, or the target of a link to it, changes. Runs until cancelled."""
        # Read once in any case: it may have changed since the start read it.
        seen: tuple[int, int, int] | None = None
        is_there = True
        while True:
            stamp = file_stamp(path)
            if stamp is None and is_there:
                self._is_gone("Configuration file", path)
            is_there = stamp is not None
            if stamp is not None and stamp != seen and (text := _text_of(path)) is not None:
                if seen is not None or text != self._in_force.text:
                    self.offer(text, path)
                seen = stamp
            await asyncio.sleep(seconds)

    def _put(self, offered: bytes | ConfigurationError, origin: str) -> None:
        self._offered = (offered, origin)
        self._wake.set()

    async def _take_or_reject(self, text: bytes | ConfigurationError, origin: str) -> None:
        """Apply or reject one text. An exception counts against this text only; the next one is tried all the same."""
        if isinstance(text, ConfigurationError):
            self._reject(text, origin)
            return
        try:
            await self._take(text, origin)
        except ConfigurationError as error:
            # In a thread: a text of 1 MiB takes long to search for the faults' lines.
            self._reject(await asyncio.to_thread(_placed, error, text, origin), origin)
        except Exception as error:
            log.exception("New configuration could not be taken up", origin=origin)
            self._reject(ConfigurationError([Fault("", f"{type(error).__name__}: {str(error)[:MAX_ERROR]}")]), origin)

    async def _take(self, text: bytes, origin: str) -> None:
        if text == self._in_force.text:
            self._counts[UNCHANGED].add()
            self.is_well = True
            self.last = self._applied
            return
        new = (await asyncio.to_thread(self._prepare, text))()
        abandoned: Mapping[str, int] = {}
        swapped = self._between_cycles.add(partial(self._swap, new))
        try:
            # Stop if a newer text comes: it need not wait until this one is in force.
            while not swapped.done() and self._offered is None:
                abandoned = new.abandoned()
                self._between_cycles.try_all()
                await asyncio.wait([swapped], timeout=BUSY_SECONDS)
            if not swapped.done():
                return
            swapped.result()
        finally:
            swapped.cancel()
        changes = tuple([str(change) for change in changes_between(self._in_force.document, new.document)])
        self._in_force = InForce(text, new.document)
        self.is_well = True
        self._counts[APPLIED].add()
        said = (*[_abandoned(name, count) for name, count in abandoned.items()], *new.warnings)
        warnings = _first(said, len(said))
        for warning in warnings:
            log.warning(warning)
        log.info("Configuration reloaded", origin=origin, changes=changes)
        self.last = self._applied = Reload(format_seconds(self._clock().wall), origin, APPLIED, changes, warnings)
        self._announce("Normal", "ConfigurationReloaded", "; ".join(changes) or "nothing has changed")
        for name, count in abandoned.items():
            self._announce("Warning", "ProfileRemoved", _abandoned(name, count))

    def _swap(self, new: NewConfiguration) -> bool:
        is_swapped = new.swap(self._clock())
        if is_swapped:
            self._taken(new)
        return is_swapped

    def _reject(self, error: ConfigurationError, origin: str) -> None:
        self.is_well = False
        self._counts[REJECTED].add()
        faults = _first([str(fault)[:MAX_ERROR] for fault in error.faults[: MAX_SHOWN + 1]], len(error.faults))
        log.error("New configuration is wrong, the last good one stays", origin=origin, faults=list(faults))
        self.last = Reload(format_seconds(self._clock().wall), origin, REJECTED, faults=faults)
        self._announce("Warning", "ConfigurationRejected", f"the last good configuration stays: {'; '.join(faults)}")

    def _is_gone(self, what: str, origin: str) -> None:
        log.warning(f"{what} is gone, the configuration stays as it is", origin=origin)
        self._announce("Warning", "ConfigurationGone", f"{origin} is gone, the configuration stays as it is")


def _text_of(path: str) -> bytes | None:
    """The file's text, as far as one may be long. None, and a line in the log, if it can't be read now."""
    try:
        # A few kilobytes on a mounted volume: not worth a thread.
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        log.warning("Configuration file can't be read, trying again", path=path, error=str(error))
        return None


def _placed(error: ConfigurationError, text: bytes, origin: str) -> ConfigurationError:
    """The faults with their lines and columns in the text, as ``tandem check-config`` shows them."""
    return ConfigurationError(placed(error.faults, text.decode(errors="replace"), origin))


def _first(texts: Sequence[str], count: int) -> tuple[str, ...]:
    """The texts of ``count`` things, as far as they are shown: a MiB of text can have ten thousand faults."""
    if count <= MAX_SHOWN:
        return tuple(texts)
    return (*texts[:MAX_SHOWN], f"and {count - MAX_SHOWN} more")


def _abandoned(profile: str, pods: int) -> str:
    waiting = f"{pods} pod{'s' * (pods != 1)} with that schedulerName wait, and no profile schedules them"
    return f'profile "{profile}" is gone' + (f": {waiting}" if pods else "")
