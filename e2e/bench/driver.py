"""The driver: creates the pods, watches bindings and events arrive. Lean, since it shares the machine with the rest."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol, Self, TypeVar

import aiohttp
import msgspec

from e2e import paths
from e2e.bench.measurement import EVENT_LIMIT
from e2e.bench.scenarios import NAMESPACE, Scenario
from e2e.builders import Object
from e2e.client import AsyncClient

IN_FLIGHT = 32


class _Name(msgspec.Struct, frozen=True):
    name: str = ""
    resourceVersion: str = ""
    deletionTimestamp: str = ""


class _Spec(msgspec.Struct, frozen=True):
    nodeName: str = ""


class _Status(msgspec.Struct, frozen=True):
    resourceClaimStatuses: list[_Name] = []


class _Thing(msgspec.Struct, frozen=True):
    """The fields that the driver reads of a pod or an event; the rest of each line is skipped, not decoded."""

    metadata: _Name = _Name()
    spec: _Spec = _Spec()
    status: _Status = _Status()
    reason: str = ""
    regarding: _Name = _Name()


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: _Thing


_decode = msgspec.json.Decoder(_Line).decode
_start = msgspec.json.Decoder(_Thing).decode


class Times:
    """When things were seen, by pod name, in seconds on the monotonic clock of the driver."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self.began = 0.0
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.reported: dict[str, float] = {}
        self.removed: set[str] = set()
        """Pods that existed before and were preempted."""
        self.first_bound = asyncio.Event()
        self.all_bound = asyncio.Event()
        self.all_reported = asyncio.Event()
        self.with_claims: set[str] = set()
        """Pods whose claims have been made."""
        self.all_have_claims = asyncio.Event()

    def saw_pod(self, line: _Line) -> None:
        name = line.object.metadata.name
        is_going = line.type == "DELETED" or bool(line.object.metadata.deletionTimestamp)
        if name not in self.names:
            if is_going:
                self.removed.add(name)
            return
        if line.type == "DELETED":
            return
        now = time.monotonic()
        self.created.setdefault(name, now)
        if line.object.status.resourceClaimStatuses:
            self.with_claims.add(name)
            if len(self.with_claims) == len(self.names):
                self.all_have_claims.set()
        if line.object.spec.nodeName:
            self.bound.setdefault(name, now)
            self.first_bound.set()
            if len(self.bound) == len(self.names):
                self.all_bound.set()

    def saw_event(self, line: _Line) -> None:
        name = line.object.regarding.name
        if line.object.reason == "Scheduled" and name in self.names:
            self.reported.setdefault(name, time.monotonic())
            if len(self.reported) == len(self.names):
                self.all_reported.set()


async def prepare(client: AsyncClient, scenario: Scenario, nodes: int, pods: int) -> None:
    """Create the objects that exist before the scheduler starts, one kind after the other."""
    await client.create_all([{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}}])
    batch: list[Object] = []
    for thing in scenario.existing(nodes, pods):
        if batch and batch[-1]["kind"] != thing["kind"]:
            await client.create_all(batch, IN_FLIGHT)
            batch = []
        batch.append(thing)
    await client.create_all(batch, IN_FLIGHT)


class Drive:
    """Drives the measured pods of one run. An async context manager that cancels what has not ended.

    All waits are within the scenario's limit, counted from the start; `times` holds the progress at the end.
    """

    def __init__(self, client: AsyncClient, scenario: Scenario, nodes: int, pods: int) -> None:
        measured = list(scenario.arriving(nodes, pods))
        noise = list(scenario.noise(nodes, pods)) if scenario.noise else []
        self.times = Times(pod["metadata"]["name"] for pod in measured)
        self._client = client
        self._rate = scenario.rate
        self._seconds = scenario.seconds
        self._makes_claims = scenario.makes_claims
        self.ended = 0.0
        """When all pods were bound, or the limit was reached."""
        # Encoded beforehand: the driver should do nothing but send while the clock runs.
        self._bodies = [msgspec.json.encode(pod) for pod in _mixed(noise, measured)]

    async def __aenter__(self) -> Self:
        self._watches = [
            await start_watch(self._client, paths.collection("Pod", NAMESPACE), self.times.saw_pod, _decode),
            await start_watch(self._client, paths.collection("Event", NAMESPACE), self.times.saw_event, _decode),
        ]
        self._deadline = time.monotonic() + self._seconds
        return self

    async def __aexit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def create(self) -> None:
        """Send the pods, all at once or at the scenario's rate, until each is created."""
        self.times.began = time.monotonic()
        path = paths.collection("Pod", NAMESPACE)
        rate = self._rate
        await self._within_limit(
            _at_once(self._client, path, self._bodies)
            if rate is None
            else _at_rate(self._client, path, self._bodies, rate)
        )

    async def claims_made(self) -> None:
        """When each pod has the claims that are made from templates, in scenarios that have such."""
        if self._makes_claims:
            await self._within_limit(self.times.all_have_claims.wait())

    async def first_binding(self) -> None:
        """From now on the clock runs: for pods that were all there before the scheduler began."""
        asked = time.monotonic()
        await self._within_limit(self.times.first_bound.wait())
        self.times.began = min(self.times.bound.values(), default=asked)

    async def end(self) -> None:
        """When each pod has its binding and, at most `EVENT_LIMIT` after the last one, its event."""
        await self._within_limit(self.times.all_bound.wait())
        self.ended = time.monotonic()
        if self.times.all_bound.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.times.all_reported.wait(), EVENT_LIMIT)

    async def _within_limit(self, step: Coroutine[Any, Any, object]) -> None:
        work = asyncio.ensure_future(step)
        try:
            # A watch ends before the work only by breaking, and then the run is no measurement.
            left = max(0.0, self._deadline - time.monotonic())
            await asyncio.wait([work, *self._watches], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for watch in self._watches:
                if watch.done():
                    watch.result()
            if work.done():
                work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


def _mixed(noise: Sequence[Object], measured: Sequence[Object]) -> list[Object]:
    """One of each in turn."""
    both = [pod for pair in zip(noise, measured, strict=False) for pod in pair]
    return both + list(measured[len(noise) :])


async def _at_once(client: AsyncClient, path: str, bodies: Sequence[bytes]) -> None:
    rest = iter(bodies)

    async def worker() -> None:
        for body in rest:
            await client.send("POST", path, body)

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


async def _at_rate(client: AsyncClient, path: str, bodies: Sequence[bytes], rate: float) -> None:
    """Each pod at its own moment, whatever became of those before it."""
    began = time.monotonic()
    sent = []
    for index, body in enumerate(bodies):
        await asyncio.sleep(began + index / rate - time.monotonic())
        sent.append(asyncio.create_task(client.send("POST", path, body)))
    await asyncio.gather(*sent)


class _Versioned(Protocol):
    @property
    def resourceVersion(self) -> str: ...


class _Known(Protocol):
    @property
    def metadata(self) -> _Versioned: ...


class Line(Protocol):
    """What is read of a line of any watch."""

    @property
    def type(self) -> str: ...

    @property
    def object(self) -> _Known: ...


AnyLine = TypeVar("AnyLine", bound=Line)


async def start_watch(
    client: AsyncClient, path: str, take: Callable[[AnyLine], None], decode: Callable[[bytes], AnyLine]
) -> asyncio.Task[None]:
    """Follow a collection from now on. The task ends only by an error, and then the run is no measurement."""
    version = _start(await client.send("GET", path, limit="1")).metadata.resourceVersion

    async def follow(version: str) -> None:
        # The server drops a watcher that lags behind a burst; what it missed comes after the reconnection.
        while True:
            query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
            limit = aiohttp.ClientTimeout(total=None)
            async with client.session.get(client.url(path), params=query, timeout=limit) as answer:
                answer.raise_for_status()
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in map(decode, lines):
                        if line.type == "ERROR":
                            raise ConnectionError(f"the watch of {path} lost its place")
                        version = line.object.metadata.resourceVersion
                        take(line)

    return asyncio.create_task(follow(version))
