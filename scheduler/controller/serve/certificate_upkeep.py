"""What a serving certificate needs while the server runs: whose client certificates count, and a look at its files."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Callable
from typing import Final

import structlog

from scheduler.controller.serve.authentication import cluster_client_authority
from scheduler.controller.serve.tls import REFRESH_SECONDS, ServingCertificate
from scheduler.controller.settings import AccessSettings
from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError, ConfigurationError

log = structlog.get_logger()


AUTHORITY_SECONDS: Final = 60.0
"""How often the cluster's client authority is looked up: it is rotated by hand, both authorities valid for a while."""


async def keep_up(
    certificate: ServingCertificate,
    client: ApiClient,
    access: AccessSettings | None,
    *,
    refresh_seconds: float = REFRESH_SECONDS,
    authority_seconds: float = AUTHORITY_SECONDS,
    wall: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
) -> None:
    """Never returns. ``access`` None: nobody is asked who they are, so the cluster's authority is not looked up.

    ``wall`` is the time by which certificates end.
    """
    looks_up = access is not None and not access.skips_lookup and not certificate.states_clients
    next_lookup = time.monotonic()
    while True:
        if looks_up and time.monotonic() >= next_lookup:
            next_lookup = time.monotonic() + authority_seconds
            await _look_up(certificate, client)
        try:
            if certificate.refresh():
                log.info("Serving certificate read again")
            if certificate.renew(wall()):
                log.info("Serving certificate made again, before it ended")
        except ConfigurationError as error:
            log.error("Changed serving certificate can't be used, the old one stays", error=str(error))
        await asyncio.sleep(refresh_seconds)


async def _look_up(certificate: ServingCertificate, client: ApiClient) -> None:
    try:
        if certificate.trust_cluster(await cluster_client_authority(client)):
            log.info("Cluster's client authority read")
    except (ApiError, ConfigurationError) as error:
        log.warning("Cluster's client authority can't be used; tokens alone identify", error=str(error))
