"""The plain kubeconfig and the service account, read without a client library.

kubernetes_asyncio reads every kubeconfig, but any part of its package imports all of its 768 models and 68 API classes:
0.4 s of CPU, nearly as much as numpy and aiohttp together. So a kubeconfig that is one file, whose context names a
server, an authority, and a token or a client certificate, is read here; ``plain_kubeconfig`` returns None for anything
else (exec plugins, auth providers, passwords, several files, any fault): the library reads it, and words the fault.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from scheduler.config.documents import read_value
from scheduler.errors import ConfigurationError, Fault

TOKEN_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"
AUTHORITY_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
HOST_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE: Final = "KUBERNETES_SERVICE_PORT"

_CONTEXT_KEYS: Final = frozenset({"cluster", "user", "namespace"})
_CLUSTER_KEYS: Final = frozenset(
    {
        "server",
        "certificate-authority",
        "certificate-authority-data",
        "insecure-skip-tls-verify",
        "tls-server-name",
        "proxy-url",
    }
)
_USER_KEYS: Final = frozenset(
    {"token", "tokenFile", "client-certificate", "client-certificate-data", "client-key", "client-key-data"}
)


class Connection(Struct, frozen=True):
    """What a kubeconfig says about a connection. "" and b"" for what it doesn't say; certificates and keys are PEM."""

    server: str
    token: str = ""
    """The whole Authorization header's value."""
    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    is_verified: bool = True
    server_name: str = ""
    proxy: str = ""


class NotPlain(Exception):
    """The kubeconfig has something that is left to the library."""


def plain_kubeconfig(path: str, context: str) -> Connection | None:
    """The connection of a context ("": the current one); None if the library has to read the file. Raises
    ConfigurationError for an empty token file, which the library would take for none."""
    if os.pathsep in path:
        return None
    try:
        document = read_value(Path(path).read_bytes())
    except (OSError, ConfigurationError):
        return None
    try:
        return _connection(document, context, Path(path).absolute().parent)
    except (NotPlain, OSError, ValueError):
        return None


def service_account(environment: Mapping[str, str], token_file: str, authority_file: str) -> Connection:
    """The connection of a pod's service account. Raises ValueError, OSError."""
    host, port = environment.get(HOST_VARIABLE, ""), environment.get(PORT_VARIABLE, "")
    if not host or not port:
        raise ValueError(f"{HOST_VARIABLE} and {PORT_VARIABLE} must be set")
    token, authority = Path(token_file).read_text(encoding="utf-8").strip(), Path(authority_file).read_bytes()
    if not token or not authority.strip():
        raise ValueError(f"{authority_file if token else token_file} is empty")
    host = f"[{host}]" if ":" in host or "%" in host else host
    return Connection(f"https://{host}:{port}", f"Bearer {token}", authority)


def _connection(document: Any, context: str, folder: Path) -> Connection:
    config = _mapping(document)
    chosen = _named(config, "contexts", context or _text(config, "current-context"), "context", _CONTEXT_KEYS)
    cluster = _named(config, "clusters", _text(chosen, "cluster"), "cluster", _CLUSTER_KEYS)
    user = _named(config, "users", _text(chosen, "user"), "user", _USER_KEYS)
    server = _text(cluster, "server").rstrip("/")
    is_insecure = cluster.get("insecure-skip-tls-verify", False)
    if not isinstance(is_insecure, bool):
        raise NotPlain
    token = _token(user, folder)
    is_tls = server.startswith("https")
    certificate = _pem(user, "client-certificate", folder) if is_tls else b""
    return Connection(
        server=server,
        token=f"Bearer {token}" if token else "",
        authority=_pem(cluster, "certificate-authority", folder) if is_tls else b"",
        certificate=certificate,
        key=(_pem(user, "client-key", folder) or certificate) if certificate else b"",
        is_verified=not is_insecure,
        server_name=_text(cluster, "tls-server-name") if "tls-server-name" in cluster else "",
        proxy=_text(cluster, "proxy-url") if "proxy-url" in cluster else "",
    )


def _token(user: Mapping[str, Any], folder: Path) -> str:
    """The token, "" where none is stated. That of a file goes first, as in client-go: the other one is as old as the
    kubeconfig. Raises ConfigurationError for a file that is empty, as it may be for a moment while it is written, where
    there is no other token: requests would be anonymous."""
    stated = _text(user, "token") if "token" in user else ""
    if "tokenFile" not in user:
        return stated
    file = folder / _text(user, "tokenFile")
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        if not stated:
            raise
        return stated
    if not token and not stated:
        raise ConfigurationError((Fault(str(file), "is empty"),))
    return token or stated


def _named(config: Mapping[str, Any], section: str, name: str, field: str, keys: frozenset[str]) -> Mapping[str, Any]:
    """The one entry of that name, if it has no other than these keys."""
    entries = config.get(section)
    if not isinstance(entries, list):
        raise NotPlain
    found = [_mapping(entry).get(field) for entry in entries if _mapping(entry).get("name") == name]
    if len(found) != 1 or not _mapping(found[0]).keys() <= keys:
        raise NotPlain
    return _mapping(found[0])


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise NotPlain
    return value


def _text(values: Mapping[str, Any], key: str) -> str:
    text = values.get(key)
    if not isinstance(text, str) or not text:
        raise NotPlain
    return text


def _pem(values: Mapping[str, Any], name: str, folder: Path) -> bytes:
    """The PEM text that is in the kubeconfig (which goes first) or in a file beside it; b"" for neither."""
    if f"{name}-data" in values:
        try:
            return base64.b64decode(_text(values, f"{name}-data"), validate=True)
        except binascii.Error:
            raise NotPlain from None
    return (folder / _text(values, name)).read_bytes() if name in values else b""
