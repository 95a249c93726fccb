"""A reflector that runs against a server, what it passed on, and the lines that a server sends."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from scheduler.controller.watch.backoff import Backoff
from scheduler.controller.watch.reflector import Reading, Reflector, WatchTimes
from scheduler.controller.write.client import ApiClient
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind
from tests.controller.conftest import PODS


class Seen:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.stimuli: list[Stimulus] = []
        self.batches = 0

    def put_all(self, stimuli: Sequence[Stimulus], /) -> None:
        self.batches += 1
        self.stimuli.extend(stimuli)

    async def room(self) -> None:
        """There always is."""

    @property
    def events(self) -> list[tuple[str, str]]:
        """+ for observed, - for deleted, ? for deleted and stale, each with the name."""
        signs: list[tuple[str, str]] = []
        for stimulus in self.stimuli:
            if isinstance(stimulus, ObjectObserved):
                signs.append(("+", stimulus.object.name))
            elif isinstance(stimulus, ObjectDeleted):
                signs.append(("?" if stimulus.is_stale else "-", stimulus.object.name))
        return signs


QUICK = WatchTimes(missing_kind=0.02)


def has_more(seconds: list[float], count: int) -> bool:
    return len(seconds) > count


class Waits(Backoff):
    """Remembers what it was asked for; waits hardly at all."""

    def __init__(self) -> None:
        super().__init__(first=1.0, most=64.0, rng=random.Random(1))
        self.seconds: list[float] = []

    def next_seconds(self) -> float:
        self.seconds.append(super().next_seconds())
        return self.seconds[-1] / 1000


@asynccontextmanager
async def running(
    client: ApiClient,
    kind: Kind = Kind.POD,
    *,
    page_size: int = 500,
    with_documents: bool = False,
    times: WatchTimes = QUICK,
    backoff: Backoff | None = None,
) -> AsyncIterator[tuple[Reflector, Seen]]:
    seen = Seen()
    reflector = Reflector(
        kind,
        client,
        seen,
        Reading(page_size, with_documents, times),
        backoff=backoff or Backoff(0.01, 0.02, random.Random(1)),
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector, seen
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def delete(client: ApiClient, name: str) -> None:
    options = msgspec.json.encode({"gracePeriodSeconds": 0})
    await client.request("DELETE", f"{PODS}/{name}", body=options)


async def patch(client: ApiClient, path: str, body: dict[str, Any]) -> None:
    await client.request(
        "PATCH", path, body=msgspec.json.encode(body), content_type="application/strategic-merge-patch+json"
    )


def watch_line(type_: str, version: str, rest: bytes = b'"spec":{}') -> bytes:
    metadata = f'"metadata":{{"name":"a","namespace":"d","uid":"1","resourceVersion":"{version}"}}'
    return b'{"type":"%b","object":{%b,%b}}\n' % (type_.encode(), metadata.encode(), rest)
