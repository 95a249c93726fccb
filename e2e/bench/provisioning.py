"""Who gives claims their volumes in a run: a provisioner of the bench's own, beside the real volume controller."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import msgspec

from e2e import paths
from e2e.bench import claims
from e2e.bench.driver import start_watch
from e2e.bench.scenarios import NAMESPACE
from e2e.client import AsyncClient
from e2e.storage import SELECTED_NODE

SECONDS_TO_SETTLE = 120.0


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""
    resourceVersion: str = ""
    annotations: dict[str, str] = {}


class _Fields(msgspec.Struct, frozen=True):
    volumeName: str = ""
    storageClassName: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Fields = _Fields()
    status: _Status = _Status()


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: _Object


class _List(msgspec.Struct, frozen=True):
    items: list[_Object] = []


class Provisioning:
    """An async context manager: entered once every volume is to be had, it makes one for each claim that a scheduler
    selects a node for, until it is left. Raises TimeoutError, and on leaving what went wrong on the way.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._made: dict[str, asyncio.Task[object]] = {}

    async def __aenter__(self) -> Self:
        async with asyncio.timeout(SECONDS_TO_SETTLE):
            while not await self._is_settled():  # noqa: ASYNC110 - nothing here but the API server to wait for
                await asyncio.sleep(1)
        path = paths.collection("PersistentVolumeClaim", NAMESPACE)
        self._watch = await start_watch(self._client, path, self._saw, msgspec.json.Decoder(_Line).decode)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.cancel()
        answers = await asyncio.gather(*self._made.values(), self._watch, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, Exception) and error is None:
                raise answer

    async def _is_settled(self) -> bool:
        """Whether the volume controller has seen every volume."""
        listed = await self._client.send("GET", paths.collection("PersistentVolume"))
        return all(volume.status.phase == "Available" for volume in msgspec.json.decode(listed, type=_List).items)

    def _saw(self, line: _Line) -> None:
        claim = line.object
        node = claim.metadata.annotations.get(SELECTED_NODE)
        if node and not claim.spec.volumeName and claim.metadata.uid not in self._made:
            self._made[claim.metadata.uid] = asyncio.ensure_future(self._make(claim, node))

    async def _make(self, claim: _Object, node: str) -> None:
        reference = {"namespace": NAMESPACE, "name": claim.metadata.name, "uid": claim.metadata.uid}
        made = claims.csi_volume(
            f"pvc-{claim.metadata.uid}",
            storageClassName=claim.spec.storageClassName,
            claimRef={"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference},
            **claims.reached_by(claims.HOST, node),
        )
        made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": claims.DRIVER}
        await self._client.create_all([made])
