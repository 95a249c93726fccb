"""A scheduler without logic: each pod gets the next node in turn. Its throughput is what the API server allows.

It makes the writes of every contender, a binding and a Scheduled event, over the same HTTP library as Tandem. A pod
with a priority gets its room first: the condition with its nomination, then for each victim the condition and the
deletion. A pod that asks for devices gets any of its node: its claim is made, if it has none, and written.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import itertools
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web

from e2e.bench.null_devices import NullDevices
from e2e.connection import Connection, from_kubeconfig

BINDS_IN_FLIGHT = 24
EVENTS_IN_FLIGHT = 12
"""Few, since bindings are what counts; but with 8 many events came too late for the run to count."""


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class _Resources(msgspec.Struct, frozen=True):
    requests: dict[str, str] = {}


class _ClaimName(msgspec.Struct, frozen=True):
    resourceClaimName: str = ""


class _PodClaim(msgspec.Struct, frozen=True):
    resourceClaimTemplateName: str = ""


class _Status(msgspec.Struct, frozen=True):
    resourceClaimStatuses: tuple[_ClaimName, ...] = ()


class _Container(msgspec.Struct, frozen=True):
    resources: _Resources = _Resources()


class _Spec(msgspec.Struct, frozen=True):
    nodeName: str = ""
    priority: int = 0
    containers: tuple[_Container, ...] = ()
    resourceClaims: tuple[_PodClaim, ...] = ()

    @property
    def milli_cpus(self) -> int:
        return sum(_milli(container.resources.requests.get("cpu", "0")) for container in self.containers)

    @property
    def extended_resources(self) -> list[str]:
        return [name for container in self.containers for name in container.resources.requests if "/" in name]


class _Thing(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def has_claims(self) -> bool:
        """Whether its claims have been made from their templates."""
        templates = [claim for claim in self.spec.resourceClaims if claim.resourceClaimTemplateName]
        return len(self.status.resourceClaimStatuses) >= len(templates)


class _List(msgspec.Struct, frozen=True):
    metadata: _Metadata
    items: list[_Thing]


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: _Thing


_list = msgspec.json.Decoder(_List).decode
_line = msgspec.json.Decoder(_Line).decode


class NullScheduler:
    def __init__(self, connection: Connection, session: aiohttp.ClientSession, name: str) -> None:
        self._connection = connection
        self._session = session
        self._name = name
        self._pods: asyncio.Queue[_Thing] = asyncio.Queue()
        self._nodes: Iterator[str] | None = None
        self._listing = asyncio.Lock()
        """One of the bindings under way lists the nodes, not each of them."""
        self._there: dict[str, list[_Thing]] = {}
        """Node → the pods that run there, oldest first."""
        self._reports: asyncio.Queue[tuple[_Metadata, str]] = asyncio.Queue()
        self._seen: set[str] = set()
        self._numbers = itertools.count()
        self._devices = NullDevices(self._get, self._send)
        self.ready = False

    async def run(self) -> None:
        for pod in _list(await self._get("/api/v1/pods", {"fieldSelector": "spec.nodeName!="})).items:
            self._there.setdefault(pod.spec.nodeName, []).append(pod)
        async with asyncio.TaskGroup() as group:
            for _ in range(BINDS_IN_FLIGHT):
                group.create_task(self._bind_for_ever())
            for _ in range(EVENTS_IN_FLIGHT):
                group.create_task(self._tell_for_ever())
            async for pod in self._pending():
                if pod.has_claims and pod.metadata.uid not in self._seen:
                    self._seen.add(pod.metadata.uid)
                    self._pods.put_nowait(pod)

    async def _pending(self) -> AsyncIterator[_Thing]:
        query = {"fieldSelector": f"spec.nodeName=,spec.schedulerName={self._name}"}
        there = _list(await self._get("/api/v1/pods", query))
        for pod in there.items:
            yield pod
        self.ready = True
        version = there.metadata.resourceVersion
        limit = aiohttp.ClientTimeout(total=None)
        url = f"{self._connection.url}/api/v1/pods"
        # The server drops a watcher that lags behind a burst; what it missed comes after the reconnection.
        while True:
            query |= {"watch": "1", "resourceVersion": version}
            async with self._session.get(url, params=query, timeout=limit) as answer:
                answer.raise_for_status()
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in map(_line, lines):
                        version = line.object.metadata.resourceVersion
                        if line.type != "DELETED":
                            yield line.object

    async def _bind_for_ever(self) -> None:
        while True:
            thing = await self._pods.get()
            pod, node = thing.metadata, await self._next_node()
            if thing.spec.priority:
                await self._make_room(thing, node)
            for claim in thing.status.resourceClaimStatuses:
                await self._devices.allocate(claim.resourceClaimName, pod, node)
            if resources := thing.spec.extended_resources:
                await self._devices.make_claim(pod, node, resources)
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
                "target": {"kind": "Node", "name": node},
            }
            await self._send("POST", f"{_path_of(thing)}/binding", body)
            self._there.setdefault(node, []).append(thing)
            self._reports.put_nowait((pod, node))

    async def _next_node(self) -> str:
        """The nodes in turn, as they were when the first pod came."""
        async with self._listing:
            while self._nodes is None:
                if items := _list(await self._get("/api/v1/nodes", {})).items:
                    self._nodes = itertools.cycle([node.metadata.name for node in items])
        return next(self._nodes)

    async def _make_room(self, pod: _Thing, node: str) -> None:
        """Remove the node's oldest pods of a lower priority, one after the other, until there is room enough or none
        is left."""
        refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "Insufficient cpu"}
        await self._patch(pod, {"conditions": [refusal], "nominatedNodeName": node})
        freed, there = 0, self._there.get(node, [])
        for victim in [other for other in there if other.spec.priority < pod.spec.priority]:
            if freed >= pod.spec.milli_cpus:
                break
            there.remove(victim)
            freed += victim.spec.milli_cpus
            reason = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            await self._patch(victim, {"conditions": [reason]})
            body = {"preconditions": {"uid": victim.metadata.uid}}
            await self._send("DELETE", _path_of(victim), body)

    async def _patch(self, pod: _Thing, status: object) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self._send("PATCH", f"{_path_of(pod)}/status", body, "application/strategic-merge-patch+json")

    async def _tell_for_ever(self) -> None:
        while True:
            pod, node = await self._reports.get()
            body = {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"namespace": pod.namespace, "name": f"{pod.name}.{next(self._numbers):x}"},
                "eventTime": datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z"),
                "reportingController": self._name,
                "reportingInstance": self._name,
                "action": "Binding",
                "reason": "Scheduled",
                "type": "Normal",
                "note": f"Successfully assigned {pod.namespace}/{pod.name} to {node}",
                "regarding": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "uid": pod.uid,
                },
            }
            await self._send("POST", f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events", body)

    async def _get(self, path: str, query: dict[str, str]) -> bytes:
        async with self._session.get(self._connection.url + path, params=query) as answer:
            answer.raise_for_status()
            return await answer.read()

    async def _send(self, method: str, path: str, body: object, content_type: str = "application/json") -> bytes:
        url, headers = self._connection.url + path, {"Content-Type": content_type}
        async with self._session.request(method, url, data=msgspec.json.encode(body), headers=headers) as answer:
            content = await answer.read()
            answer.raise_for_status()
            return content


def _milli(cpus: str) -> int:
    """Of an amount in CPUs or thousandths of them, such as "2" and "900m"."""
    return int(cpus[:-1]) if cpus.endswith("m") else int(cpus) * 1000


def _path_of(pod: _Thing) -> str:
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"


async def _serve(kubeconfig: Path, name: str, port: int) -> None:
    connection = from_kubeconfig(kubeconfig)
    connector = aiohttp.TCPConnector(ssl=connection.tls or True, limit=BINDS_IN_FLIGHT + EVENTS_IN_FLIGHT + 4)
    async with aiohttp.ClientSession(connector=connector, headers=connection.headers) as session:
        scheduler = NullScheduler(connection, session, name)

        async def readyz(_: web.Request) -> web.Response:
            return web.Response(text="ok" if scheduler.ready else "not yet", status=200 if scheduler.ready else 500)

        application = web.Application()
        application.router.add_get("/readyz", readyz)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        work = asyncio.create_task(scheduler.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--scheduler-name", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    import uvloop  # as Tandem does

    uvloop.run(_serve(options.kubeconfig, options.scheduler_name, options.port))


if __name__ == "__main__":
    main()
