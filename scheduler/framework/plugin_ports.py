"""What plugins that run in the shell get: the API server, the pod to bind, and the pods that wait for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo


class CalledInShell:
    """What PreBind, Bind and PostBind plugins have in common: their coroutines run in the shell."""

    time_limit_seconds: ClassVar[float] = 60.0
    """Time limit of one call, which is cut off then; ``user_plugins/shape.py`` bounds it."""


class ApiAnswer(Protocol):
    """The API server's answer to a request that it granted."""

    @property
    def status(self) -> int:
        """200 to 299."""
        ...

    @property
    def body(self) -> bytes: ...


class ApiPort(Protocol):
    """The API server, with the scheduler's credentials."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> ApiAnswer:
        """Send one request. Raises ``scheduler.errors.ApiError`` for a refusal, and where there is no answer."""
        ...


class BindContext(Struct, frozen=True):
    """What the plugins that run in the shell get: the pod, the chosen node, and the API server's port."""

    pod: PodInfo
    node: str
    client: ApiPort


class WaitingPod(Struct, frozen=True):
    """A pod that waits for a plugin in Permit."""

    pod: PodInfo
    node: str


class PluginHandle(Protocol):
    """What a ``BackgroundPlugin`` may ask and do: on the event loop, ``allow``, ``reject`` and ``activate`` also from a
    thread of its own.

    Requests are carried out in their order, soon after the call: until then ``waiting_pods`` has the pod still. One
    that names no pod, or has no text for a message, is a TypeError.
    """

    @property
    def client(self) -> ApiPort: ...

    def waiting_pods(self) -> Sequence[WaitingPod]:
        """The pods that wait for this plugin in Permit, those that have waited longest first."""
        ...

    def allow(self, uid: str) -> None:
        """The pod need not wait for this plugin any more."""
        ...

    def reject(self, uid: str, message: str = "") -> None:
        """The pod is rejected, and goes back to the queue."""
        ...

    def activate(self, *keys: str) -> None:
        """Try these pods (``namespace/name``) at once, whatever their back-off."""
        ...
