"""Where a kubeconfig file points to, and how to prove who we are there."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Connection:
    """An API server's URL, the headers of each request, and the TLS context (None for plain http)."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None


def from_kubeconfig(path: Path) -> Connection:
    """Of the current context: a token, a client certificate, or nothing. Relative paths count from the file."""
    config = yaml.safe_load(path.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"]).get("user") or {}
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    tls = _tls(cluster, user, path.parent) if cluster["server"].startswith("https:") else None
    return Connection(cluster["server"].rstrip("/"), headers, tls)


def _tls(cluster: dict[str, Any], user: dict[str, Any], folder: Path) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        authority = _bytes(cluster, "certificate-authority", folder)
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate, key = _bytes(user, "client-certificate", folder), _bytes(user, "client-key", folder)
    if certificate and key:
        # The ssl module loads a certificate chain from a file only.
        with tempfile.NamedTemporaryFile(suffix=".pem") as chain:
            os.chmod(chain.name, 0o600)
            chain.write(certificate + b"\n" + key)
            chain.flush()
            context.load_cert_chain(chain.name)
    return context


def _bytes(stanza: dict[str, Any], key: str, folder: Path) -> bytes | None:
    if data := stanza.get(f"{key}-data"):
        return base64.b64decode(str(data))
    if file := stanza.get(key):
        return (folder / str(file)).read_bytes()
    return None


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(f"the kubeconfig has no entry named {name!r}")
