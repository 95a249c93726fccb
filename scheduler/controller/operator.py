"""kopf's thread: start, restarts and stop of the operator around the scheduler.

kopf runs in a thread and an event loop of its own, and is imported there, without the client library that it would
import only to recognise its objects. There it can do what it does when it stops, namely cancel every task created after
its start, and take the signal handlers only if it is on the main thread, without affecting the scheduler; and its
liveness endpoint answers while the scheduling loop is stuck, which is what such an endpoint is for.
If it fails, it is logged and started again after a while: scheduling goes on without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from msgspec import Struct

from scheduler.controller.late_imports import ONE_AT_A_TIME
from scheduler.controller.optional_imports import without_optional
from scheduler.controller.settings import OperatorOptions
from scheduler.controller.side_loop import SideLoop
from scheduler.controller.watch.backoff import Backoff
from scheduler.controller.write.credentials import CredentialSource

STOP_SECONDS = 8.0
RESTART_SECONDS = (5.0, 300.0)

log = structlog.get_logger()


class OperatorCallbacks(Struct, frozen=True):
    """Called on the scheduler's event loop, never in kopf's thread.

    ``on_configuration(data)``: the watched ConfigMap's data, None when it was deleted.
    """

    on_configuration: Callable[[Mapping[str, str] | None], None] = lambda _: None


class Proofs(Struct, frozen=True):
    """The values that the probes read, from kopf's thread. ``last_beat`` is monotonic, 0.0 before the first."""

    last_beat: Callable[[], float]
    is_leading: Callable[[], bool]


class KopfOperator:
    """``start``, then ``stop``; both on the scheduler's event loop."""

    def __init__(
        self,
        options: OperatorOptions,
        source: CredentialSource,
        callbacks: OperatorCallbacks,
        proofs: Proofs,
    ) -> None:
        self._options = options
        self._source = source
        self._callbacks = callbacks
        self._proofs = proofs
        self._stop_flag: asyncio.Event | None = None
        self._wants_stop = threading.Event()
        self._is_ready = False
        self._scheduler_loop = asyncio.get_running_loop()
        self._side = SideLoop("kopf", self._run)

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    def start(self) -> None:
        self._side.start()

    async def stop(self) -> None:
        """Set kopf's stop flag and let its clean-up handlers run; cancel it if that takes too long."""
        self._wants_stop.set()
        self._side.call(self._raise_stop_flag)
        if not await self._side.join(STOP_SECONDS):
            log.warning("kopf did not stop in time")
            await self._side.stop(1.0)

    # --- in kopf's thread --------------------------------------------------------------------------------------------

    def _raise_stop_flag(self) -> None:
        if self._stop_flag is not None:
            self._stop_flag.set()

    async def _run(self) -> None:
        self._stop_flag = stop_flag = asyncio.Event()
        backoff = Backoff(*RESTART_SECONDS)
        while not self._wants_stop.is_set():
            try:
                await self._operate(stop_flag)
            except Exception:
                log.exception("kopf failed; scheduling goes on without it")
            self._is_ready = False
            if self._wants_stop.is_set():
                return
            wait = backoff.next_seconds()
            log.warning("kopf ended, starting it again", seconds=round(wait, 1))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await stop_flag.wait()

    async def _operate(self, stop_flag: asyncio.Event) -> None:
        with ONE_AT_A_TIME, without_optional("kubernetes_asyncio"):
            from scheduler.controller.kopf_operator import Hooks, operate

        hooks = Hooks(
            on_ready=self._ready,
            on_configuration=lambda data: self._hand_over(self._callbacks.on_configuration, data),
            is_leading=self._proofs.is_leading,
            seconds_since_beat=self._seconds_since_beat,
            on_down=self._down,
        )
        await operate(self._options, self._source, hooks, stop_flag)

    def _ready(self) -> None:
        self._is_ready = True

    def _down(self) -> None:
        """Ends this loop's coroutine with the task that ran the clean-up handlers, where the stop is ours.

        kopf would wait 5 s for requests of its discovery that it has left without credentials.
        """
        clean_up = asyncio.current_task()
        if self._wants_stop.is_set() and clean_up is not None:
            clean_up.add_done_callback(lambda _: self._side.cancel())

    def _seconds_since_beat(self) -> float:
        """Seconds since the scheduling loop's last turn; 0.0 before its first."""
        last = self._proofs.last_beat()
        return time.monotonic() - last if last else 0.0

    def _hand_over(self, callback: Callable[..., None], *values: Any) -> None:
        """Call into the scheduler's loop; if that is closed, the call is dropped."""
        try:
            self._scheduler_loop.call_soon_threadsafe(callback, *values)
        except RuntimeError:
            log.debug("Scheduling loop is gone")
