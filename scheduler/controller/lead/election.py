"""Runs the elector in a thread of its own, so that a busy scheduling loop does not delay the Lease's renewal."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Mapping

from scheduler.controller.lead.announcement import announced
from scheduler.controller.lead.leadership import LeaseToken
from scheduler.controller.lead.lease import Claimant, LeaseElector
from scheduler.controller.settings import ShellSettings
from scheduler.controller.side_loop import SideLoop
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.credentials import CredentialSource


class Election:
    """Create it inside the event loop in which ``on_won`` and ``on_end`` are to be called.

    ``on_end``: leadership was lost or released, or can't be acquired.
    """

    def __init__(
        self,
        settings: ShellSettings,
        environment: Mapping[str, str],
        token: LeaseToken,
        *,
        on_won: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._token = token
        self._identity = f"{settings.hostname}_{uuid.uuid4()}"
        self._callers = asyncio.get_running_loop()
        self._on_won = on_won
        self._thread = SideLoop("leader election", self._elect, lambda _: self._tell(on_end))

    def start(self) -> None:
        self._thread.start()

    async def stop(self, seconds: float) -> None:
        """Releases the Lease and waits for it at most ``seconds``."""
        await self._thread.stop(seconds)

    async def _elect(self) -> None:
        # A client of its own: another thread, and the renew deadline as its limit.
        settings = self._settings.leader_election
        client = ApiClient(
            CredentialSource(self._settings.connection, self._environment),
            connections=4,
            timeout_seconds=settings.renew_deadline,
        )
        try:
            won = self._on_won
            await LeaseElector(
                client,
                settings,
                Claimant(self._identity, self._annotations),
                self._token,
                on_won=lambda: self._tell(won),
            ).run()
        finally:
            await client.close()

    def _annotations(self) -> dict[str, str]:
        serving = self._settings.serving
        fingerprint = "" if serving.certificate is None else serving.certificate.fingerprint
        return announced(self._settings.own_pod, serving.port, fingerprint)

    def _tell(self, what: Callable[[], None]) -> None:
        # The receiving loop is closed already.
        with contextlib.suppress(RuntimeError):
            self._callers.call_soon_threadsafe(what)
