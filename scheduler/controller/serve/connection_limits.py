"""Bounds of the connections to the pages, and what became of those beyond them."""

from __future__ import annotations

from msgspec import Struct


class ConnectionLimits(Struct, frozen=True):
    """Numbers of connections, seconds and bytes."""

    connections: int = 256
    connections_of_address: int = 64
    handshake_seconds: float = 10.0
    head_seconds: float = 10.0
    """From a connection's start to the end of its first request's head."""
    request_seconds: float = 60.0
    """From a request's head until the page is ready."""
    idle_seconds: float = 90.0
    """From then until the page is sent and the next request's head is complete; as in kube-scheduler."""
    head_bytes: int = 32 * 2**10
    """Bytes received without completing a request. A token has 16 KiB at most."""


class ConnectionCounts(Struct):
    """Counters for metrics."""

    accepted: int = 0
    displaced: int = 0
    """Connections closed for a newer one, before they had completed a request."""
    refused: int = 0
    """New connections refused because no other could be replaced."""
    overdue: int = 0
    """Connections closed at their deadline."""

    @property
    def cut(self) -> int:
        """The number of connections that were cut or refused, so that others get through."""
        return self.displaced + self.refused + self.overdue
