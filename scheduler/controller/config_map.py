"""Whether the ConfigMap that is watched for a configuration is there at all: kopf reports objects and their deletion,
and nothing of one that never was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from scheduler.controller.settings import OperatorOptions
from scheduler.controller.watch.backoff import Backoff
from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError

log = structlog.get_logger()


class _List(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()


async def report_absence(client: ApiClient, options: OperatorOptions, on_absent: Callable[[], None]) -> None:
    """Look once, as soon as the API server answers; ``on_absent`` if the ConfigMap is not there."""
    backoff = Backoff()
    while True:
        try:
            if not await _is_there(client, options.config_map_namespace, options.config_map_name):
                on_absent()
            return
        except ApiError as error:
            if not error.is_transient:
                # A missing right, which the check of rights reports.
                log.debug("ConfigMap could not be looked for", error=str(error))
                return
        await asyncio.sleep(backoff.next_seconds())


async def _is_there(client: ApiClient, namespace: str, name: str) -> bool:
    # By a list request: the watch needs the rights to list and to watch anyway, but not the right to get.
    path, query = f"/api/v1/namespaces/{namespace}/configmaps", {"fieldSelector": f"metadata.name={name}", "limit": "1"}
    answer = await client.request("GET", path, query=query)
    try:
        return bool(msgspec.json.decode(answer.body, type=_List).items)
    except msgspec.DecodeError as error:
        log.debug("ConfigMap could not be looked for", error=str(error))
        return True
