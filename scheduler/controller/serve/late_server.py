"""The server of the pages as the shell knows it: it listens at once, and answers when it is loaded.

aiohttp and the pages take a quarter of the time of all other imports. So they are imported in a thread, once the pods
that waited for the start are placed, or when the first visitor connects; until then the kernel accepts connections.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from scheduler.controller.serve.connection_limits import ConnectionCounts
from scheduler.controller.serve.listening import listening_sockets
from scheduler.controller.serve.serving_settings import ServingSettings


class LoadedServer(Protocol):
    """What is used of a ``HealthServer``, whose module imports aiohttp."""

    @property
    def counts(self) -> ConnectionCounts: ...

    @property
    def open_connections(self) -> int: ...

    async def serve_on(self, sockets: Sequence[socket.socket]) -> None:
        """Start to answer on these listening sockets."""

    async def close(self) -> None: ...


class LateServer:
    """``listen``, then ``serve``, once each, ``visited`` between them; ``close`` at any time. ``load`` imports and
    makes the server, in a thread; port 0 of the settings turns it off."""

    def __init__(
        self, settings: ServingSettings, load: Callable[[], LoadedServer], component_config: Mapping[str, Any]
    ) -> None:
        self.component_config = component_config
        """The configuration that ``/configz`` shows; replaced by a reload."""
        self.tandem_config: Mapping[str, Any] = {}
        self.last_reload: Callable[[], msgspec.Struct | None] = lambda: None
        self.port = 0
        """The listening port, once it listens."""
        self._settings = settings
        self._load = load
        self._sockets: Sequence[socket.socket] = ()
        self._server: LoadedServer | None = None

    def listen(self) -> None:
        """Take the port. Raises ConfigurationError with one line if that fails."""
        if self._settings.port:
            self._sockets = listening_sockets(self._settings.bind_address, self._settings.port)
            self.port = self._sockets[0].getsockname()[1]

    async def visited(self) -> None:
        """Wait until a connection is there to be accepted; for ever if nothing listens."""
        loop, visit = asyncio.get_running_loop(), asyncio.Event()
        for one in self._sockets:
            loop.add_reader(one, visit.set)
        try:
            await visit.wait()
        finally:
            for one in self._sockets:
                loop.remove_reader(one)

    async def serve(self) -> None:
        """Start to answer, those first who have connected meanwhile."""
        if self._sockets and self._server is None:
            server = await asyncio.to_thread(self._load)
            await server.serve_on(self._sockets)
            self._server = server

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
        for one in self._sockets:
            one.close()

    @property
    def is_serving(self) -> bool:
        """Whether the pages are loaded and answer."""
        return self._server is not None

    @property
    def counts(self) -> ConnectionCounts:
        """The counts of connections; all 0 before it serves."""
        return ConnectionCounts() if self._server is None else self._server.counts

    @property
    def open_connections(self) -> int:
        """The number of accepted connections; none before it serves."""
        return 0 if self._server is None else self._server.open_connections

    def configz(self) -> dict[str, Any]:
        """What ``/configz`` shows."""
        page: dict[str, Any] = {
            "componentconfig": dict(self.component_config),
            "tandemconfig": dict(self.tandem_config),
        }
        last = self.last_reload()
        if last is not None:
            page["lastReload"] = msgspec.to_builtins(last)
        return page
