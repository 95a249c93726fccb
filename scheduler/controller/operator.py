"""kopf around the scheduler: start-up and clean-up, the liveness endpoint, the ConfigMap reload.

kopf runs in a thread and an event loop of its own. There it can do what it does when it stops, namely cancel every task
created after its start, and take the signal handlers only if it is on the main thread, without affecting the
scheduler; and its liveness endpoint answers while the scheduling loop is stuck, which is what such an endpoint is for.
If it fails, it is logged and started again after a while: scheduling goes on without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import kopf
import structlog

from scheduler.controller.settings import OperatorOptions
from scheduler.controller.side_loop import SideLoop
from scheduler.controller.watch.backoff import Backoff
from scheduler.controller.write.client import keep_alive_socket, user_agent
from scheduler.controller.write.credentials import Credentials, CredentialSource
from scheduler.errors import ConfigurationError

STALL_SECONDS = 30.0
"""Seconds without a turn of the scheduling loop after which the liveness endpoint fails."""
STOP_SECONDS = 8.0
RESTART_SECONDS = (5.0, 300.0)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OperatorCallbacks:
    """Called on the scheduler's event loop, never in kopf's thread.

    ``on_configuration(data)``: the watched ConfigMap's data, None when it was deleted.
    """

    on_configuration: Callable[[Mapping[str, str] | None], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Proofs:
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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._source = source
        self._callbacks = callbacks
        self._proofs = proofs
        self._monotonic = monotonic
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
        options = self._options
        namespaces = [options.config_map_namespace] if options.config_map_name else []
        endpoint = (
            f"http://{options.liveness_address}:{options.liveness_port}/healthz" if options.liveness_port else None
        )
        await kopf.operator(
            registry=self._registry(),
            settings=operator_settings(),
            memo=kopf.Memo(),
            namespaces=namespaces,
            clusterwide=not namespaces,
            standalone=True,
            liveness_endpoint=endpoint,
            stop_flag=stop_flag,
        )

    def _registry(self) -> kopf.OperatorRegistry:
        """Handlers in a registry of our own: importing this module registers nothing."""
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        async def log_in(**_: Any) -> kopf.AiohttpSession:
            return await self._log_in()

        @kopf.on.startup(registry=registry)
        async def started(**_: Any) -> None:
            self._is_ready = True
            log.info("kopf is up")

        @kopf.on.cleanup(registry=registry)
        async def cleaned_up(**_: Any) -> None:
            log.info("kopf is down")

        @kopf.on.probe(id="leading", registry=registry)
        async def leading(**_: Any) -> bool:
            return self._proofs.is_leading()

        @kopf.on.probe(id="beat", registry=registry)
        async def beat(**_: Any) -> float:
            return self._check_beat()

        if self._options.config_map_name:
            wanted = (self._options.config_map_namespace, self._options.config_map_name)

            @kopf.on.event("", "v1", "configmaps", registry=registry)
            async def config_map(
                type: str | None, name: str | None, namespace: str | None, body: kopf.Body, **_: Any
            ) -> None:
                if (namespace, name) == wanted:
                    data = None if type == "DELETED" else dict(body.get("data", {}))
                    self._hand_over(self._callbacks.on_configuration, data)

        return registry

    def _check_beat(self) -> float:
        """Seconds since the scheduling loop's last turn. Raises kopf.PermanentError (HTTP 500) above STALL_SECONDS."""
        last = self._proofs.last_beat()
        age = self._monotonic() - last if last else 0.0
        if age > STALL_SECONDS:
            raise kopf.PermanentError(f"the scheduling loop has not been seen for {age:.0f} s")
        return age

    async def _log_in(self) -> kopf.AiohttpSession:
        """Our credentials, in a session that kopf then owns, so that kubeconfigs are read in one place."""
        try:
            credentials = await self._source.load()
        except ConfigurationError as error:
            raise kopf.PermanentError(str(error)) from error
        return kopf.AiohttpSession(server=credentials.server, aiohttp_session=session_with(credentials))

    def _hand_over(self, callback: Callable[..., None], *values: Any) -> None:
        """Call into the scheduler's loop; if that is closed, the call is dropped."""
        try:
            self._scheduler_loop.call_soon_threadsafe(callback, *values)
        except RuntimeError:
            log.debug("Scheduling loop is gone")


def operator_settings() -> kopf.OperatorSettings:
    """kopf's settings: posting, peering and scanning off; watches that notice a dead connection."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.level = logging.CRITICAL
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    # kopf's pause before each list and watch, also where a server answers all of them with 410.
    settings.watching.reconnect_backoff = 1.0
    settings.networking.request_timeout = 30
    settings.process.ultimate_exiting_timeout = None
    return settings


def session_with(credentials: Credentials) -> aiohttp.ClientSession:
    headers = {"User-Agent": user_agent()}
    if credentials.authorization:
        headers["Authorization"] = credentials.authorization
    connector = aiohttp.TCPConnector(limit=16, socket_factory=keep_alive_socket, ssl=credentials.ssl_context or True)
    return aiohttp.ClientSession(connector=connector, headers=headers, proxy=credentials.proxy, trust_env=False)
