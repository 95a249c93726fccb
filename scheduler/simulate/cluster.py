"""A whole cluster in this process: API server, kubelets and controllers, behind one URL."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from scheduler.simulate.apiserver import ApiServer, Faults, Registry, Store
from scheduler.simulate.controllers import Controllers
from scheduler.simulate.controllers.heartbeats import Heartbeats
from scheduler.simulate.controllers.taints import TaintEviction
from scheduler.simulate.kubelet import Kubelet, KubeletSettings


class EmbeddedCluster:
    """`async with EmbeddedCluster() as cluster:` serves at `cluster.url` until the block ends.

    `token` None admits every client. `kubelet` None means nodes without kubelets: pods stay pending after they are
    bound, and have to be removed by hand. An exception in a player ends the block with it.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        kubelet: KubeletSettings | None = KubeletSettings(),  # noqa: B008
        controllers: bool = True,
    ) -> None:
        self.server = ApiServer(token=token)
        self._token = token
        self._kubelet = kubelet
        self._controllers = controllers
        self._players: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return self.server.url

    @property
    def store(self) -> Store:
        """The objects; read freely, write through the registry."""
        return self.server.store

    @property
    def registry(self) -> Registry:
        """The verbs without HTTP."""
        return self.server.registry

    @property
    def faults(self) -> Faults:
        return self.server.faults

    def kubeconfig(self, path: Path | str) -> Path:
        """Write a kubeconfig for this cluster and return where."""
        user = {} if self._token is None else {"token": self._token}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "embedded",
            "clusters": [{"name": "embedded", "cluster": {"server": self.url}}],
            "users": [{"name": "embedded", "user": user}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}}],
        }  # fmt: skip
        target = Path(path)
        target.write_bytes(msgspec.yaml.encode(config))
        return target

    async def __aenter__(self) -> EmbeddedCluster:
        await self.server.start()
        if self._kubelet is not None:
            self._play(Kubelet(self.registry, self._kubelet).run())
        if self._controllers:
            self._play(Controllers(self.registry).run())
            self._play(TaintEviction(self.registry).run())
        if self._kubelet is not None and self._kubelet.renews_leases:
            self._play(Heartbeats(self.registry).run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for player in self._players:
            player.cancel()
        try:
            for player in self._players:
                with suppress(asyncio.CancelledError):
                    await player
        finally:
            await self.server.stop()

    def _play(self, player: Coroutine[Any, Any, None]) -> None:
        self._players.append(asyncio.create_task(player))
