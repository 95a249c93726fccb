"""Refuses requests that a web page of another site makes a browser send.

A browser that reaches the pages (by a port-forward, in a demo without authorization, with a client certificate) must
not ask questions on behalf of whatever page it shows: not across sites, and not by a name that a foreign DNS
points to this server.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from yarl import URL

from scheduler.controller.serve.authorization import refusal

OWN_SITES: Final = ("same-origin", "none")
"""Values of Sec-Fetch-Site of requests that no other site caused."""
CLUSTER_DOMAINS: Final = (".svc", ".svc.cluster.local", ".pod.cluster.local")
JSON: Final = "application/json"
DATA: Final = "/debug/"


def why_refused(request: web.Request, own_name: str = "") -> str:
    """Why the request is refused, or "". ``own_name``: this host's name.

    The host must be an address, ``localhost``, a name without dots, a name of the cluster's domain, or our own: public
    DNS can't give those to others.
    """
    try:
        host = URL(f"http://{request.host}").host or ""
    except ValueError:
        return "the Host header can't be read"
    if not _is_ours(host, own_name):
        return "the Host header names neither an address nor a name within the cluster"
    if request.headers.get("Sec-Fetch-Site", "none") not in OWN_SITES:
        return "requests from other sites are not answered"
    origin = request.headers.get("Origin")
    if origin is not None and origin not in (f"http://{request.host}", f"https://{request.host}"):
        return "requests from other origins are not answered"
    return ""


def of_same_site(own_name: str) -> Middleware:
    """A middleware that answers 403 to what other sites cause under ``/debug/``. Requests with credentials that no
    browser adds by itself are let through by any name."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(DATA) and "Authorization" not in request.headers:
            why = why_refused(request, own_name)
            if why:
                return refusal(403, "Forbidden", why)
        return await handler(request)

    return check


def is_json(request: web.Request) -> bool:
    """Whether the body is declared as JSON, which no form of a web page can do, and not as packed."""
    return request.content_type == JSON and "Content-Encoding" not in request.headers


def _is_ours(host: str, own_name: str) -> bool:
    name = host.rstrip(".").lower()
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return bool(name) and ("." not in name or name == own_name.lower() or name.endswith(CLUSTER_DOMAINS))
    return True
