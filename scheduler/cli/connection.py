"""How the commands that ask a running scheduler reach its pages: over HTTPS as whoever the kubeconfig says."""

from __future__ import annotations

import asyncio
import os
import ssl
import urllib.request
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from scheduler.controller.settings import ConnectionSettings
from scheduler.controller.write.credentials import Credentials, CredentialSource
from scheduler.errors import ConfigurationError

TIMEOUT_SECONDS: Final = 10.0


def fetch(url: str) -> bytes:
    """The page. Raises OSError, of which urllib's errors are children, and ValueError for what is no URL.

    On the loopback the scheduler's certificate is not verified: it may have made it for itself. Elsewhere it is, and
    neither token nor client certificate goes out without.
    """
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    request = urllib.request.Request(url)
    parts = urlsplit(url)
    if parts.scheme == "https":
        who = _credentials()
        if who is not None and who.authorization:
            request.add_header("Authorization", who.authorization)
        handlers.append(urllib.request.HTTPSHandler(context=_context(who, is_loopback(parts.hostname or ""))))
    # Straight to it: a proxy for the outside world has no business between us and a scheduler's port.
    with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_SECONDS) as answer:
        body: bytes = answer.read()
        return body


def is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _credentials() -> Credentials | None:
    """Those of the kubeconfig, None where there is none: the page may be open to everybody."""
    try:
        return asyncio.run(CredentialSource(ConnectionSettings(), os.environ).load())
    except ConfigurationError:
        return None


def _context(who: Credentials | None, is_near: bool) -> ssl.SSLContext:
    context = who.ssl_context if who is not None and who.ssl_context is not None else ssl.create_default_context()
    if is_near:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
