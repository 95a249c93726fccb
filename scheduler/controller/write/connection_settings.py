"""The settings of a connection to the API server."""

from __future__ import annotations

from msgspec import Struct


class ConnectionSettings(Struct, frozen=True):
    """Where the API server is, and the limit of requests to it.

    ``kubeconfig`` "" searches: in-cluster, then ``$KUBECONFIG``, then ``~/.kube/config``. ``master`` overrides the
    server's URL. ``requests_per_second`` None: no limit on our side (the API server's own fairness rules remain).
    """

    kubeconfig: str = ""
    context: str = ""
    master: str = ""
    requests_per_second: float | None = None
    burst: int = 100
    timeout_seconds: float = 30.0
