"""A writer to an API server, and pods for it to write to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Unpack

import msgspec

from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.leadership import AlwaysHeld, Leadership
from scheduler.controller.write.outbox import Outbox
from scheduler.controller.write.requests import WriteRequests
from scheduler.controller.write.writer import Writer
from scheduler.controller.write.writer_settings import WriterSettings
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.meta import Condition
from scheduler.testing.documents import PodFields, node_json, pod_json
from tests.controller.conftest import PODS, create


@asynccontextmanager
async def writing(
    client: ApiClient,
    leadership: Leadership | None = None,
    *,
    requests_in_flight: int = 128,
    binds_queued: int = 256,
    **limits: Any,
) -> AsyncIterator[tuple[Writer, list[WriteFinished]]]:
    outcomes: list[WriteFinished] = []
    settings = WriterSettings(**limits)
    requests = WriteRequests(client, settings, lambda: "2026-01-02T03:04:05Z")
    outbox = Outbox(requests_in_flight)

    def finished(outcome: WriteFinished) -> None:
        assert outcome.seconds > 0.0
        outcomes.append(msgspec.structs.replace(outcome, seconds=0.0))

    leadership = leadership or AlwaysHeld()
    writer = Writer(requests, leadership, outbox, finished, lambda: 0.0, binds_queued)
    try:
        yield writer, outcomes
    finally:
        await outbox.close()


async def new_pod(client: ApiClient, name: str = "a", **fields: Unpack[PodFields]) -> PodReference:
    for node in ("n1", "n2"):
        await create(client, "/api/v1/nodes", node_json(node))
    created = await create(client, PODS, pod_json(name, **fields))
    return PodReference("default", name, created["metadata"]["uid"])


async def new_pod_of_name(client: ApiClient, name: str) -> PodReference:
    created = await create(client, PODS, pod_json(name))
    return PodReference("default", name, created["metadata"]["uid"])


def failed_condition(message: str = "0/1 nodes are available") -> Condition:
    return Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
