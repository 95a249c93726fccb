"""kubernetes_asyncio's reading of kubeconfigs: exec plugins, auth providers, passwords, several files merged.

The only module that imports kubernetes_asyncio; it is loaded when a kubeconfig needs it (``kubeconfig.py`` says why).
"""

from __future__ import annotations

import datetime
from pathlib import Path

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config

from scheduler.controller.write.kubeconfig import Connection


async def read_kubeconfig(path: str, context: str) -> tuple[Connection, datetime.datetime | None]:
    """The connection, and the time at which an exec plugin's credentials expire (None: they don't).

    Raises ValueError and many other exceptions for a faulty kubeconfig.
    """
    configuration = Configuration()
    configuration.host = ""
    try:
        loader = await load_kube_config(path, context or None, configuration, persist_config=False)
    except ConfigException as error:
        raise ValueError(str(error)) from error
    connection = Connection(
        server=(configuration.host or "").rstrip("/"),
        token=(configuration.api_key.get("BearerToken") or "").strip(),
        authority=_content(configuration.ssl_ca_cert),
        certificate=_content(configuration.cert_file),
        key=_content(configuration.key_file or configuration.cert_file) if configuration.cert_file else b"",
        is_verified=configuration.verify_ssl,
        server_name=configuration.tls_server_name or "",
        proxy=configuration.proxy or "",
    )
    return connection, getattr(loader, "exec_plugin_expiry", None)


def _content(path: str | None) -> bytes:
    return Path(path).read_bytes() if path else b""
