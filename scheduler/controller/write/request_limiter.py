"""A token bucket for requests: the client-side limit that ``clientConnection.qps`` and ``burst`` ask for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class RequestLimiter:
    """``rate`` tokens a second, at most ``burst`` saved. Without a token callers wait, first come first served."""

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = max(burst, 1)
        self._clock = clock
        self._tokens = float(self._burst)
        self._at = clock()

    def wait_seconds(self) -> float:
        """Take a token (in advance, if need be); returns the seconds to wait before using it."""
        self._refill()
        self._tokens -= 1.0
        return 0.0 if self._tokens >= 0.0 else -self._tokens / self._rate

    def take_now(self) -> bool:
        """Take a token if there is one, so that nothing has to be waited for; returns whether there was."""
        self._refill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    async def admit(self) -> None:
        wait = self.wait_seconds()
        if wait > 0.0:
            await asyncio.sleep(wait)

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self._burst)
        self._at = now
