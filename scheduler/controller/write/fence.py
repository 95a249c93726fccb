"""The fence: checks the permission to write right before a request's bytes are sent, after all waits.

A write waits for a place, for the client-side rate limit, for credentials, for a connection of the pool and for TLS;
the Lease may be lost in any of these. ``FencedRequest`` and ``http_exchange`` ask when the connection is there and the
next step is to write to it. Bytes that wait in the socket's buffer from then on cannot be called back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from scheduler.controller.write.leadership import Leadership, LeadershipLost


class Departure:
    """One outgoing write. ``has_left``: bytes of it were passed to a connection, so it may have been carried out."""

    __slots__ = ("_leadership", "has_left")

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self.has_left = False

    def leave(self) -> None:
        """Note that bytes leave now. Raises LeadershipLost."""
        if not self._leadership.is_held():
            raise LeadershipLost("leader election lost: nothing is written any more")
        self.has_left = True


_departure: ContextVar[Departure | None] = ContextVar("departure", default=None)


@contextlib.contextmanager
def fenced(departure: Departure | None) -> Iterator[None]:
    """Fences the requests that the calling task sends in the block: they raise LeadershipLost without the permission.

    None changes nothing: a request within the fence of its caller stays there.
    """
    if departure is None:
        yield
        return
    token = _departure.set(departure)
    try:
        yield
    finally:
        _departure.reset(token)


def current_departure() -> Departure | None:
    """The write that the calling task is making, None outside of ``fenced``."""
    return _departure.get()
