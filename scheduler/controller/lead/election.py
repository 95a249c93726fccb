"""Runs the elector in a thread of its own, so that a busy scheduling loop does not delay the Lease's renewal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from scheduler.controller.lead.lease import Claimant, LeaseElector
from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.report.outage import Outage
from scheduler.controller.side_loop import SideLoop
from scheduler.controller.write.client import ApiClient, Directly, RequestObserver
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.leadership import LeaseToken
from scheduler.errors import ApiError
from scheduler.messages.references import LeaseReference


class Election:
    """Create it inside the event loop in which ``on_won`` and ``on_end`` are to be called.

    ``on_end``: leadership was lost or released, or can't be acquired.
    """

    def __init__(
        self,
        credentials: CredentialSource,
        settings: LeaderElectionSettings,
        claimant: Claimant,
        token: LeaseToken,
        *,
        outage: Outage,
        on_won: Callable[[LeaseReference], None],
        on_end: Callable[[], None],
    ) -> None:
        self._credentials = credentials
        self._settings = settings
        self._claimant = claimant
        self._token = token
        self._callers = asyncio.get_running_loop()
        self._on_won = on_won
        self._outage = _OutageOf(outage, self._tell)
        self._thread = SideLoop("leader election", self._elect, lambda _: self._tell(on_end))
        self.observe: RequestObserver | None = None
        """Called for each request about the Lease, in the callers' event loop. Set it before ``start``."""

    def start(self) -> None:
        self._thread.start()

    async def stop(self, seconds: float) -> None:
        """Releases the Lease and waits for it at most ``seconds``."""
        await self._thread.stop(seconds)

    async def _elect(self) -> None:
        # A client of its own: another thread, and time-outs of its own.
        settings = self._settings
        client = ApiClient(
            self._credentials, connections=4, timeout_seconds=settings.request_seconds, directly=Directly.ALL
        )
        if (observe := self.observe) is not None:
            client.observe = lambda *request: self._tell(partial(observe, *request))
        try:
            won = self._on_won
            elector = LeaseElector(
                client,
                settings,
                self._claimant,
                self._token,
                on_won=lambda: self._tell(partial(won, elector.lease)),
                outage=self._outage,
            )
            await elector.run()
        finally:
            await client.close()

    def _tell(self, what: Callable[[], None]) -> None:
        # The receiving loop is closed already.
        with contextlib.suppress(RuntimeError):
            self._callers.call_soon_threadsafe(what)


class _OutageOf:
    """The outage of another thread's event loop, to which ``tell`` passes calls."""

    def __init__(self, outage: Outage, tell: Callable[[Callable[[], None]], None]) -> None:
        self._outage = outage
        self._tell = tell

    def report(self, text: str, what: str, error: ApiError) -> None:
        self._tell(partial(self._outage.report, text, what, error))

    def recovered(self, what: str) -> None:
        self._tell(partial(self._outage.recovered, what))
