"""kubernetes_asyncio's reading of kubeconfigs: exec plugins, auth providers, passwords, several files merged.

With ``exec_plugin.py`` the only module that imports kubernetes_asyncio; it is loaded when a kubeconfig needs it
(``kubeconfig.py`` says why).
"""

from __future__ import annotations

import datetime
from pathlib import Path

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.kube_config import KubeConfigMerger

from scheduler.controller.write.exec_plugin import LimitedLoader, default_limit
from scheduler.controller.write.kubeconfig import Connection


async def read_kubeconfig(
    path: str, context: str, plugin_seconds: float | None = None
) -> tuple[Connection, datetime.datetime | None]:
    """The connection, and the time at which an exec plugin's credentials expire (None: they don't). The plugin has
    ``plugin_seconds`` to answer; None for the usual time.

    Raises ValueError and many other exceptions for a faulty kubeconfig.
    """
    configuration = Configuration()
    configuration.host = ""
    try:
        merged = KubeConfigMerger(path).config
        loader = LimitedLoader(config_dict=merged, config_base_path=None, active_context=context or None)
        loader.limit = default_limit() if plugin_seconds is None else plugin_seconds
        await loader.load_and_set(configuration)
    except ConfigException as error:
        raise ValueError(str(error)) from error
    certificate = loader.certificate or _content(configuration.cert_file)
    connection = Connection(
        server=(configuration.host or "").rstrip("/"),
        token=(configuration.api_key.get("BearerToken") or "").strip(),
        authority=_content(configuration.ssl_ca_cert),
        certificate=certificate,
        key=(loader.key or _content(configuration.key_file or configuration.cert_file)) if certificate else b"",
        is_verified=configuration.verify_ssl,
        server_name=configuration.tls_server_name or "",
        proxy=configuration.proxy or "",
    )
    return connection, getattr(loader, "exec_plugin_expiry", None)


def _content(path: str | None) -> bytes:
    return Path(path).read_bytes() if path else b""
