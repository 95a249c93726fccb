"""Address and credentials of the API server: kubeconfig files, exec plugins, in-cluster tokens.

kubernetes_asyncio reads them; this module decides which one, and when to reload.

Order: an explicit kubeconfig, in-cluster, ``$KUBECONFIG``, ``~/.kube/config``. Credentials that can expire are
reloaded.
"""

from __future__ import annotations

import datetime
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config
from kubernetes_asyncio.config import incluster_config as in_cluster

from scheduler.controller.settings import ConnectionSettings
from scheduler.controller.write.proxies import proxy_for
from scheduler.errors import ConfigurationError, Fault

TOKEN_LIFE_SECONDS = 60.0
"""Seconds after which token files are read again: kubelets rotate them in place."""
EXPIRY_MARGIN = datetime.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Everything that a connection needs. ``ssl_context`` None: plain HTTP. ``authorization`` "": no such header."""

    server: str
    source: str
    """For messages: the kubeconfig's path, or ``in-cluster``."""
    authorization: str = ""
    ssl_context: ssl.SSLContext | None = None
    server_hostname: str | None = None
    proxy: str | None = None
    client_certificate: tuple[str, str] | None = None
    """The files of the certificate and its key, which ``ssl_context`` has loaded."""


class CredentialSource:
    """Loads credentials, and reports when they must be reloaded."""

    def __init__(
        self,
        settings: ConnectionSettings,
        environment: Mapping[str, str],
        *,
        token_path: str = in_cluster.SERVICE_TOKEN_FILENAME,
        authority_path: str = in_cluster.SERVICE_CERT_FILENAME,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._token_path = token_path
        self._authority_path = authority_path
        self._clock = clock
        self._loaded_at = 0.0
        self._life: float | None = None
        self._contexts: dict[tuple[Any, ...], ssl.SSLContext] = {}

    @property
    def is_stale(self) -> bool:
        """Whether the credentials may have been rotated since they were loaded."""
        return self._life is not None and self._clock() >= self._loaded_at + self._life

    async def load(self) -> Credentials:
        """The credentials. Raises ConfigurationError with one line that names the faulty file and the fault."""
        path = self._kubeconfig_path()
        configuration = Configuration()
        configuration.host = ""
        try:
            if path:
                await self._load_kubeconfig(path, configuration)
            else:
                self._load_in_cluster(configuration)
            return self._credentials(configuration, path or "in-cluster")
        except (ConfigException, ssl.SSLError, OSError, AssertionError, ValueError, TypeError, AttributeError) as error:
            # The loader raises many kinds of exceptions for broken kubeconfigs: for the user they are one.
            raise _fault(path or "in-cluster configuration", str(error) or type(error).__name__) from error
        finally:
            self._loaded_at = self._clock()

    def _kubeconfig_path(self) -> str:
        """The kubeconfig to use, "" for in-cluster. Raises ConfigurationError if none is found."""
        explicit = self._settings.kubeconfig
        if explicit:
            if not Path(explicit).expanduser().exists():
                raise _fault(explicit, "no such file")
            return str(Path(explicit).expanduser())
        if self._environment.get(in_cluster.SERVICE_HOST_ENV_NAME) and Path(self._token_path).exists():
            return ""
        listed = self._environment.get("KUBECONFIG", "")
        if listed:
            paths = [path for path in listed.split(os.pathsep) if path]
            if any(Path(path).expanduser().exists() for path in paths):
                return os.pathsep.join(paths)
            raise _fault(listed, "no such file (KUBECONFIG)")
        home = self._environment.get("HOME", "")
        default = Path(home) / ".kube" / "config" if home else None
        if default is not None and default.exists():
            return str(default)
        text = "no API server: give --kubeconfig, set KUBECONFIG, or run inside a cluster with a service account"
        raise ConfigurationError((Fault("", text),))

    async def _load_kubeconfig(self, path: str, configuration: Any) -> None:
        for part in path.split(os.pathsep):
            _check_readable(part)
        loader = await load_kube_config(path, self._settings.context or None, configuration, persist_config=False)
        expiry = getattr(loader, "exec_plugin_expiry", None)
        if expiry is not None:
            left = (expiry - EXPIRY_MARGIN - datetime.datetime.now(datetime.UTC)).total_seconds()
            self._life = max(left, 5.0)
        else:
            self._life = TOKEN_LIFE_SECONDS if _names_token_file(path) else None

    def _load_in_cluster(self, configuration: Any) -> None:
        loader = in_cluster.InClusterConfigLoader(
            self._token_path, self._authority_path, try_refresh_token=False, environ=dict(self._environment)
        )
        loader.load_and_set(configuration)
        self._life = TOKEN_LIFE_SECONDS

    def _credentials(self, configuration: Any, source: str) -> Credentials:
        server = (self._settings.master or configuration.host or "").rstrip("/")
        if not server:
            raise ConfigException("the cluster has no server")
        if "://" not in server:
            server = f"http://{server}"
        return Credentials(
            server=server,
            source=source,
            authorization=(configuration.api_key.get("BearerToken") or "").strip(),
            ssl_context=self._ssl_context(configuration) if server.startswith("https") else None,
            server_hostname=configuration.tls_server_name or None,
            proxy=configuration.proxy or proxy_for(server, self._environment),
            client_certificate=(
                (configuration.cert_file, configuration.key_file or configuration.cert_file)
                if configuration.cert_file
                else None
            ),
        )

    def _ssl_context(self, configuration: Any) -> ssl.SSLContext:
        """The TLS context, made once per version of the files: building one takes milliseconds and drops TLS
        sessions."""
        paths = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        stamps = tuple(Path(path).stat().st_mtime_ns if path else 0 for path in paths)
        key = (*paths, *stamps, configuration.verify_ssl)
        context = self._contexts.get(key)
        if context is None:
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
            if not configuration.verify_ssl:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
            self._contexts = {key: context}
        return context


def _fault(where: str, text: str) -> ConfigurationError:
    return ConfigurationError((Fault(f"kubeconfig {where}" if os.sep in where else where, " ".join(text.split())),))


def _check_readable(name: str) -> None:
    """Raises ConfigurationError for a file that is there but is no kubeconfig."""
    path = Path(name).expanduser()
    if not path.exists():
        return
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise _fault(str(path), f"can't be read: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        raise _fault(str(path), f"is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise _fault(str(path), "is not a kubeconfig")


def _names_token_file(path: str) -> bool:
    """Whether a user's token is in a separate file (it may be rotated)."""
    texts = (Path(part).expanduser() for part in path.split(os.pathsep))
    return any("tokenFile" in text.read_text() for text in texts if text.exists())
