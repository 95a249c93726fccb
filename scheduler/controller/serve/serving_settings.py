"""The settings of the pages: where they are served, and who may read them."""

from __future__ import annotations

from msgspec import Struct, field

from scheduler.controller.serve.connection_limits import ConnectionLimits
from scheduler.controller.serve.tls import ServingCertificate


class AccessSettings(Struct, frozen=True):
    """Access to pages. Lifetimes in seconds: how long an answer of the API server is cached.

    ``open_paths``: open to everyone; a path that ends in ``*`` is a prefix. ``skips_lookup``: the cluster's own
    authority for client certificates is not looked up.
    """

    open_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    token_life: float = 10.0
    allowed_life: float = 10.0
    refused_life: float = 10.0
    skips_lookup: bool = False


class ServingSettings(Struct, frozen=True):
    """The page server. ``port`` 0 turns it off. ``certificate`` None: plain HTTP. ``access`` None: every page is
    open."""

    bind_address: str = "0.0.0.0"
    port: int = 10259
    certificate: ServingCertificate | None = None
    access: AccessSettings | None = None
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
