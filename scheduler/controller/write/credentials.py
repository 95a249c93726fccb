"""Address and credentials of the API server: kubeconfig files, exec plugins, in-cluster tokens.

This module decides which one, and when to reload. kubernetes_asyncio reads every kubeconfig that is not a plain one.

Order: an explicit kubeconfig, in-cluster, ``$KUBECONFIG``, ``~/.kube/config``. Credentials that can expire are
reloaded.
"""

from __future__ import annotations

import datetime
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from scheduler.config.documents import read_value
from scheduler.controller.late_imports import ONE_AT_A_TIME
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.kubeconfig import (
    AUTHORITY_FILE,
    HOST_VARIABLE,
    TOKEN_FILE,
    Connection,
    plain_kubeconfig,
    service_account,
)
from scheduler.controller.write.kubeconfig_faults import fault_of
from scheduler.controller.write.proxies import is_proxy_url, is_server_url, proxy_for
from scheduler.errors import ConfigurationError, Fault

IN_CLUSTER = "in-cluster configuration"
TOKEN_LIFE_SECONDS = 60.0
"""Seconds after which token files are read again: kubelets rotate them in place."""
EXPIRY_MARGIN_SECONDS = 300.0
"""Seconds before their expiry at which credentials are loaded again; but no more than a quarter of their life, since
some live for less than that."""
RETRY_SECONDS = 5.0
"""Seconds after a failed load until credentials that can expire are loaded again. Loaded ones count as fresh for at
least that long."""


class ClientCertificate(Struct, frozen=True):
    """A client certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    def load_into(self, context: ssl.SSLContext) -> None:
        """Present it in the context's handshakes. Raises ValueError for what is none, or has another key."""
        # The ssl module loads files only; these are readable by this user alone, and gone afterwards.
        with tempfile.NamedTemporaryFile() as certificate, tempfile.NamedTemporaryFile() as key:
            for file, content in ((certificate, self.certificate), (key, self.key)):
                file.write(content)
                file.flush()
            try:
                context.load_cert_chain(certificate.name, key.name)
            except ssl.SSLError as error:
                raise ValueError(f"the client certificate and its key can't be used: {error}") from error


class Credentials(Struct, frozen=True):
    """Everything that a connection needs. ``ssl_context`` None: plain HTTP. ``authorization`` "": no such header."""

    server: str
    source: str
    """For messages: the kubeconfig's path, or ``in-cluster``."""
    authorization: str = ""
    ssl_context: ssl.SSLContext | None = None
    server_hostname: str | None = None
    proxy: str | None = None
    client_certificate: ClientCertificate | None = None
    """The certificate that ``ssl_context`` has loaded."""


class CredentialSource:
    """Loads credentials, and reports when they must be reloaded."""

    def __init__(
        self,
        settings: ConnectionSettings,
        environment: Mapping[str, str],
        *,
        token_path: str = TOKEN_FILE,
        authority_path: str = AUTHORITY_FILE,
        clock: Callable[[], float] = time.monotonic,
        plugin_seconds: float | None = None,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._token_path = token_path
        self._authority_path = authority_path
        self._clock = clock
        self._plugin_seconds = plugin_seconds
        """Seconds that an exec plugin may take; None for the usual limit."""
        self._loaded_at = 0.0
        self._life: float | None = None
        self._contexts: dict[tuple[Any, ...], ssl.SSLContext] = {}

    @property
    def is_stale(self) -> bool:
        """Whether the credentials may have been rotated since they were loaded."""
        return self._life is not None and self._clock() >= self._loaded_at + self._life

    async def load(self) -> Credentials:
        """The credentials. Raises ConfigurationError with one line that names the faulty file and the fault.

        After a failed reading those that were loaded before, if they can expire, are stale in ``RETRY_SECONDS``.
        """
        path = self.kubeconfig_path()
        life = None if self._life is None else RETRY_SECONDS
        try:
            connection, new_life = await self._from_kubeconfig(path) if path else self._from_cluster()
            loaded = self._credentials(connection, path or "in-cluster")
            life = new_life
            return loaded
        except (ssl.SSLError, OSError, AssertionError, ValueError, TypeError, AttributeError) as error:
            # The loader raises many kinds of exceptions for broken kubeconfigs: for the user they are one.
            raise _fault(path or IN_CLUSTER, str(error) or type(error).__name__) from error
        except RecursionError as error:
            raise _fault(path, "is nested too deep") from error
        finally:
            self._loaded_at, self._life = self._clock(), life

    def kubeconfig_path(self) -> str:
        """The kubeconfig to use, "" for in-cluster. Raises ConfigurationError if none is found."""
        explicit = self._settings.kubeconfig
        if explicit:
            if not Path(explicit).expanduser().exists():
                raise _fault(explicit, "no such file")
            return str(Path(explicit).expanduser())
        if self._environment.get(HOST_VARIABLE) and Path(self._token_path).exists():
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

    async def _from_kubeconfig(self, path: str) -> tuple[Connection, float | None]:
        """The connection, and the seconds for which its credentials are fresh (None: for ever)."""
        plain = plain_kubeconfig(path, self._settings.context)
        if plain is None:
            documents = [document for part in path.split(os.pathsep) if (document := _document(part)) is not None]
            fault = fault_of(documents, self._settings.context)
            if fault:
                raise _fault(path, fault)
        life = TOKEN_LIFE_SECONDS if _names_token_file(path) else None
        if plain is not None:
            return plain, life
        # Imported here: most kubeconfigs are plain, and it takes as long as everything else at the start together.
        with ONE_AT_A_TIME:
            from scheduler.controller.write.kubeconfig_library import read_kubeconfig

        connection, expiry = await read_kubeconfig(path, self._settings.context, self._plugin_seconds)
        if expiry is not None:
            left = (expiry - datetime.datetime.now(datetime.UTC)).total_seconds()
            life = max(left - min(EXPIRY_MARGIN_SECONDS, left / 4), RETRY_SECONDS)
        return connection, life

    def _from_cluster(self) -> tuple[Connection, float]:
        return service_account(self._environment, self._token_path, self._authority_path), TOKEN_LIFE_SECONDS

    def _credentials(self, connection: Connection, source: str) -> Credentials:
        server = (self._settings.master or connection.server).rstrip("/")
        if not server:
            raise ValueError("the cluster has no server")
        scheme, separator, rest = server.partition("://")
        server = f"{scheme.lower()}://{rest}" if separator else f"http://{server}"
        if set(server + connection.token) & set("\r\n\0"):
            raise ValueError("the server or the token has a line break")
        if not is_server_url(server):
            raise ValueError("the server must be http://HOST:PORT or https://HOST:PORT, without a user and a query")
        proxy = connection.proxy or proxy_for(server, self._environment)
        if proxy and not is_proxy_url(proxy):
            raise ValueError("the proxy must be http://HOST:PORT or https://HOST:PORT")
        certificate = ClientCertificate(connection.certificate, connection.key) if connection.certificate else None
        return Credentials(
            server=server,
            source=source,
            authorization=connection.token,
            ssl_context=self._ssl_context(connection, certificate) if server.startswith("https") else None,
            server_hostname=connection.server_name or None,
            proxy=proxy,
            client_certificate=certificate,
        )

    def _ssl_context(self, connection: Connection, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """The TLS context, made once per version of the certificates: building one takes milliseconds and drops TLS
        sessions."""
        key = (connection.authority, certificate, connection.is_verified)
        context = self._contexts.get(key)
        if context is None:
            # Comments in a bundle may be of any encoding; certificates are ASCII.
            authority = connection.authority.decode("ascii", errors="replace").replace("\ufffd", "?")
            context = ssl.create_default_context(cadata=authority or None)
            if not connection.is_verified:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if certificate is not None:
                certificate.load_into(context)
            self._contexts = {key: context}
        return context


def _fault(where: str, text: str) -> ConfigurationError:
    return ConfigurationError((Fault(where if where == IN_CLUSTER else f"kubeconfig {where}", " ".join(text.split())),))


def _document(name: str) -> dict[str, Any] | None:
    """What is in the file, None if it is not there. Raises ConfigurationError for a file that is no kubeconfig."""
    path = Path(name).expanduser()
    if not path.exists():
        return None
    try:
        document = read_value(path.read_bytes())
    except OSError as error:
        raise _fault(str(path), f"can't be read: {error.strerror or error}") from error
    except ConfigurationError as error:
        raise _fault(str(path), str(error)) from error
    if not isinstance(document, dict):
        raise _fault(str(path), "is not a kubeconfig")
    return document


def _names_token_file(path: str) -> bool:
    """Whether a user's token is in a separate file (it may be rotated)."""
    texts = (Path(part).expanduser() for part in path.split(os.pathsep))
    return any("tokenFile" in text.read_text() for text in texts if text.exists())
