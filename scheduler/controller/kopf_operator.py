"""The kopf operator: start-up and clean-up handlers, the liveness endpoint's probes, the watched ConfigMap.

The only module that imports kopf; ``operator.py`` imports it in kopf's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import kopf
import structlog
from msgspec import Struct

from scheduler.controller.settings import OperatorOptions
from scheduler.controller.write.credentials import Credentials, CredentialSource
from scheduler.controller.write.direct import keep_alive_socket, user_agent
from scheduler.errors import ConfigurationError

STALL_SECONDS = 30.0
"""Seconds without a turn of the scheduling loop after which the liveness endpoint fails."""

log = structlog.get_logger()


class Hooks(Struct, frozen=True):
    """What the operator reads and calls, all of it in kopf's thread.

    ``on_configuration(data)``: the watched ConfigMap's data, None when it was deleted.
    """

    on_ready: Callable[[], None]
    on_configuration: Callable[[Mapping[str, str] | None], None]
    is_leading: Callable[[], bool]
    seconds_since_beat: Callable[[], float]
    on_down: Callable[[], None]


async def operate(options: OperatorOptions, source: CredentialSource, hooks: Hooks, stop_flag: asyncio.Event) -> None:
    """Run the operator until the flag is set."""
    namespaces = [options.config_map_namespace] if options.config_map_name else []
    endpoint = f"http://{options.liveness_address}:{options.liveness_port}/healthz" if options.liveness_port else None
    await kopf.operator(
        registry=_registry(options, source, hooks),
        settings=operator_settings(),
        memo=kopf.Memo(),
        namespaces=namespaces,
        clusterwide=not namespaces,
        standalone=True,
        liveness_endpoint=endpoint,
        stop_flag=stop_flag,
    )


def _registry(options: OperatorOptions, source: CredentialSource, hooks: Hooks) -> kopf.OperatorRegistry:
    """Handlers in a registry of our own: importing this module registers nothing."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return await _log_in(source)

    @kopf.on.startup(registry=registry)
    async def started(**_: Any) -> None:
        hooks.on_ready()
        log.info("kopf is up")

    @kopf.on.cleanup(registry=registry)
    async def cleaned_up(**_: Any) -> None:
        log.info("kopf is down")
        hooks.on_down()

    @kopf.on.probe(id="leading", registry=registry)
    async def leading(**_: Any) -> bool:
        return hooks.is_leading()

    @kopf.on.probe(id="beat", registry=registry)
    async def beat(**_: Any) -> float:
        return _checked(hooks.seconds_since_beat())

    if options.config_map_name:
        wanted = (options.config_map_namespace, options.config_map_name)

        @kopf.on.event("", "v1", "configmaps", registry=registry)
        async def config_map(
            type: str | None, name: str | None, namespace: str | None, body: kopf.Body, **_: Any
        ) -> None:
            if (namespace, name) == wanted:
                hooks.on_configuration(None if type == "DELETED" else dict(body.get("data", {})))

    return registry


def _checked(age: float) -> float:
    """The seconds since the loop's last turn. Raises kopf.PermanentError (HTTP 500) above STALL_SECONDS."""
    if age > STALL_SECONDS:
        raise kopf.PermanentError(f"the scheduling loop has not been seen for {age:.0f} s")
    return age


async def _log_in(source: CredentialSource) -> kopf.AiohttpSession:
    """Our credentials for kopf, in a session that kopf then owns: kubeconfigs are read in one place."""
    try:
        credentials = await source.load()
    except ConfigurationError as error:
        raise kopf.PermanentError(str(error)) from error
    return kopf.AiohttpSession(server=credentials.server, aiohttp_session=session_with(credentials))


def operator_settings() -> kopf.OperatorSettings:
    """kopf's settings: posting, peering and scanning off; watches that notice a dead connection."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.posting.level = logging.CRITICAL
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    # kopf's pause before each list and watch, also where a server answers all of them with 410.
    settings.watching.reconnect_backoff = 1.0
    settings.networking.request_timeout = 30
    settings.process.ultimate_exiting_timeout = None
    return settings


def session_with(credentials: Credentials) -> aiohttp.ClientSession:
    """A session whose requests have these credentials. Make it inside the event loop."""
    headers = {"User-Agent": user_agent()}
    if credentials.authorization:
        headers["Authorization"] = credentials.authorization
    name = credentials.server_hostname
    connector = aiohttp.TCPConnector(limit=16, socket_factory=keep_alive_socket, ssl=credentials.ssl_context or True)
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        proxy=credentials.proxy,
        trust_env=False,
        middlewares=[_asking_for(name)] if name is not None else [],
    )


def _asking_for(name: str) -> aiohttp.ClientMiddlewareType:
    """The kubeconfig's ``tls-server-name``, for the handshakes of a session: kopf's requests do not state it."""

    async def stating_the_name(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        request.server_hostname = name
        return await handler(request)

    return stating_the_name
