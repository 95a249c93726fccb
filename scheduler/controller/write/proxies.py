"""The proxy for requests to the API server or an extender, from the usual variables, read as Go programs read them; and
which URLs of servers and proxies can be used."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy's URL, or None for a direct connection.

    ``HTTPS_PROXY``/``HTTP_PROXY`` by the URL's scheme, in capitals or not; ``NO_PROXY`` lists hosts, domains (with or
    without a leading dot), addresses, networks such as ``10.0.0.0/8``, each with an optional ``:port``, or ``*``.
    The loopback never goes through a proxy.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if host == "localhost" or _is_loopback(host):
        return None
    name = f"{parts.scheme}_proxy"
    proxy = environment.get(name.upper()) or environment.get(name)
    if not proxy:
        return None
    exceptions = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if any(_matches(entry.strip().lower(), host, port) for entry in exceptions.split(",") if entry.strip()):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_server_url(url: str) -> bool:
    """Whether paths can be appended to it."""
    parts = urlsplit(url)
    return is_proxy_url(url) and "@" not in parts.netloc and not parts.query and not parts.fragment


def is_proxy_url(url: str) -> bool:
    """Whether it is a proxy that requests can go through: none of SOCKS."""
    return url.startswith(("http://", "https://")) and bool(urlsplit(url).hostname)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    try:
        network = ipaddress.ip_network(entry, strict=False)
        return address is not None and address in network
    except ValueError:
        pass
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit():
        if int(number) != port:
            return False
        entry = name.strip("[]")
    if address is not None:
        return entry == host
    bare = entry.removeprefix("*").removeprefix(".")
    return host.endswith(f".{bare}") or (host == bare and not entry.startswith((".", "*")))
