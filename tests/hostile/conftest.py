"""The embedded API server, and clients to it."""

from tests.controller.conftest import client, cluster, connection, log_lines

__all__ = ["client", "cluster", "connection", "log_lines"]
