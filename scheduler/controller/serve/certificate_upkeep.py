"""Keeps the serving certificate and the trusted client authority up to date while the server runs."""

from __future__ import annotations

import asyncio
import datetime
import time
from typing import Final

import structlog

from scheduler.controller.serve.authentication import cluster_client_authority
from scheduler.controller.serve.serving_settings import AccessSettings
from scheduler.controller.serve.tls import REFRESH_SECONDS, ServingCertificate
from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError, ConfigurationError

log = structlog.get_logger()


AUTHORITY_SECONDS: Final = 60.0
"""Interval of reading the cluster's client authority: it is rotated by hand, with both valid for a while."""


async def keep_up(
    certificate: ServingCertificate,
    client: ApiClient,
    access: AccessSettings | None,
    *,
    refresh_seconds: float = REFRESH_SECONDS,
    authority_seconds: float = AUTHORITY_SECONDS,
) -> None:
    """Runs until cancelled. ``access`` None: clients are not authenticated, so the cluster's authority is not read."""
    looks_up = access is not None and not access.skips_lookup and not certificate.states_clients
    next_lookup = time.monotonic()
    while True:
        if looks_up and time.monotonic() >= next_lookup:
            next_lookup = time.monotonic() + authority_seconds
            await _look_up(certificate, client)
        try:
            if certificate.refresh():
                log.info("Serving certificate read again")
            if certificate.renew(datetime.datetime.now(datetime.UTC)):
                log.info("Serving certificate renewed before its expiry")
        except ConfigurationError as error:
            log.error("Changed serving certificate can't be used, the old one stays in use", error=str(error))
        await asyncio.sleep(refresh_seconds)


async def _look_up(certificate: ServingCertificate, client: ApiClient) -> None:
    try:
        if certificate.trust_cluster(await cluster_client_authority(client)):
            log.info("Cluster's client authority read")
    except (ApiError, ConfigurationError) as error:
        log.warning("Cluster's client authority can't be used; only tokens authenticate", error=str(error))
