"""What a serving certificate needs while the server runs: whose client certificates count, and a look at its files."""

from __future__ import annotations

import asyncio

import structlog

from scheduler.controller.serve.authentication import cluster_client_authority
from scheduler.controller.serve.tls import REFRESH_SECONDS, ServingCertificate
from scheduler.controller.settings import AccessSettings
from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError, ConfigurationError

log = structlog.get_logger()


async def keep_up(certificate: ServingCertificate, client: ApiClient, access: AccessSettings | None) -> None:
    """Never returns. ``access`` None: nobody is asked who they are, so the cluster's authority is not looked up."""
    if access is not None and not access.skips_lookup and not certificate.knows_clients:
        try:
            if authority := await cluster_client_authority(client):
                certificate.trust_clients(authority)
        except (ApiError, ConfigurationError) as error:
            log.warning("Cluster's client authority can't be used; tokens alone identify", error=str(error))
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        try:
            if certificate.refresh():
                log.info("Serving certificate read again")
        except ConfigurationError as error:
            log.error("Changed serving certificate can't be used, the old one stays", error=str(error))
