"""The scheduler's life cycle: start order, causes of its end, and shutdown (docs/kube-scheduler/cycle.md §1).

1. The parts are made, the inbox first and the scheduling loop last: ``assembly.py``.
2. Credentials are loaded, the pages' port is taken, signals are caught: ``run``.
3. Loop, reflectors and the Lease start: ``_start``.
4. When every kind is listed and applied, and if the Lease is ours, pods are taken: ``_wait_for_sync``, ``_may_pop``.
   What is not needed for that comes once the pods that waited are placed (``_start_is_over``): the pages with their
   imports, unless a visitor comes first, and the check of rights; kopf when there is nothing else to do.
5. SIGTERM: no further pod is taken, writes are settled, the Lease is given back, kopf stops; exit code 0: ``_leave``.
6. The Lease is lost, or a vital task ends: exit code 1 at once.
7. In any case all parts are closed: ``_close``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import uuid
from collections.abc import Callable, Mapping
from functools import partial

import structlog
from msgspec.structs import replace

from scheduler.controller import garbage
from scheduler.controller.assembly import EVENT_SOURCE, Assembly
from scheduler.controller.config_map import report_absence
from scheduler.controller.late_imports import import_masked_arrays
from scheduler.controller.lead.announcement import announced
from scheduler.controller.lead.election import Election
from scheduler.controller.lead.lease import Claimant
from scheduler.controller.operator import KopfOperator, Proofs
from scheduler.controller.parts import EngineFactory, Parts
from scheduler.controller.process_end import run_in_process
from scheduler.controller.report.logs import configure_logs
from scheduler.controller.rights import report_missing_rights
from scheduler.controller.serve.certificate_upkeep import keep_up
from scheduler.controller.settings import ShellSettings
from scheduler.controller.signals import StopSignals
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.pacing import Rank
from scheduler.errors import ConfigurationError
from scheduler.messages.commands import WriteEvent
from scheduler.messages.references import LeaseReference
from scheduler.messages.stimuli import Synced

EXIT_STOPPED = 0
EXIT_FAILED = 1
SYNC_REPORT_SECONDS = 10.0
SYNC_REPEAT_SECONDS = 60.0
EVENT_SETTLE_SECONDS = 2.0
SETTLE_LOOK_SECONDS = 0.05
REPORT_SECONDS = 3.0
"""How long the last events of the pods that waited for the start may take for it to count as over."""
RIGHTS_SECONDS = 3.0
"""Maximum seconds for which the check of rights waits for the end of the start: a right that is missing may be what the
start waits for. 5,000 nodes and 2,000 pods take 1 s; a backlog of 10,000 pods takes 3 s."""
OPERATOR_WAIT_SECONDS = 30.0
THREAD_STOP_SECONDS = 5.0

log = structlog.get_logger()


def run_blocking(settings: ShellSettings, factory: EngineFactory, environment: Mapping[str, str]) -> int:
    """``run`` in an event loop of its own, uvloop's where it is installed. Returns the exit code, or ends the process
    with it."""
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        loop_factory = importlib.import_module("uvloop").new_event_loop
    return run_in_process(run(settings, factory, environment), loop_factory)


async def run(settings: ShellSettings, factory: EngineFactory, environment: Mapping[str, str]) -> int:
    """Run a scheduler until it is stopped; returns the exit code. A wrong configuration is one line in the log and exit
    code 1."""
    configure_logs(settings.logs)
    garbage.collect_seldom()
    try:
        settings.leader_election.check()
        shell = Shell(settings, factory(), environment)
        return await shell.run()
    except ConfigurationError as error:
        log.error(str(error))
        return EXIT_FAILED


class Shell(Assembly):
    """One running scheduler. Make it inside the event loop; ``run`` once."""

    def __init__(self, settings: ShellSettings, parts: Parts, environment: Mapping[str, str]) -> None:
        """Raises ConfigurationError if the journal can't be written."""
        super().__init__(settings, parts, environment)
        self._identity = f"{settings.hostname}_{uuid.uuid4()}"
        self._election: Election | None = None
        self._operator: KopfOperator | None = None

    async def run(self) -> int:
        """Run until stopped; returns the exit code. Raises ConfigurationError for credentials that can't be used or a
        port that is taken."""
        signals = StopSignals()
        try:
            credentials = await self.client.connect()
            self.server.listen()
            signals.install()
            serving = self._settings.serving
            scheme = "http" if serving.certificate is None else "https"
            log.info(
                "Starting",
                version=self._settings.version,
                kubernetes=self._settings.kubernetes,
                configuration=self._settings.configuration_file or "defaults",
                pages=f"{scheme}://{serving.bind_address}:{self.server.port}" if serving.port else "off",
                server=credentials.server,
                credentials=credentials.source,
            )
            if self._settings.is_shadow:
                log.warning("Shadow mode: nothing is written but the Lease")
            self._start()
            return await self._until_the_end(signals)
        finally:
            signals.remove()
            await self._close()

    # --- start -------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._tasks.start("upkeep of writes", self.sink.keep_up, is_vital=False)
        self._tasks.start("scheduling loop", self.loop.run)
        self._tasks.start("rights", self._check_rights, is_vital=False)
        self._tasks.start("kubelets' refusals", self.refusals.run, is_vital=False)
        serving = self._settings.serving
        if serving.port and serving.certificate is not None:
            upkeep = partial(keep_up, serving.certificate, self.page_client, serving.access)
            self._tasks.start("certificate", upkeep, is_vital=False)
        if self._waits_to_list:
            self._start_operator()
        else:
            self._start_reflectors()
        if self.reloader is not None:
            self._tasks.start("configuration", self.reloader.run, is_vital=False)
            if self._settings.configuration_file:
                watching = partial(self.reloader.watch, self._settings.configuration_file)
                self._tasks.start("configuration file", watching, is_vital=False)
        self._tasks.start("pages", self._serve_pages, is_vital=False)
        self._start_election()

    async def _serve_pages(self) -> None:
        """Serve the pages once the backlog is placed, or a probe or another visitor asks: their imports hold up the
        event loop by some 20 ms, which each pod of the backlog would notice."""
        causes = {asyncio.create_task(self._start_is_over()), asyncio.create_task(self.server.visited())}
        try:
            await asyncio.wait(causes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for cause in causes:
                cause.cancel()
            await asyncio.gather(*causes, return_exceptions=True)
        await self.server.serve()

    async def _check_rights(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RIGHTS_SECONDS):
                await self._start_is_over()
        await report_missing_rights(self.client, self._settings)

    async def _start_is_over(self) -> None:
        """Wait until every kind is listed and the pods that waited for that are placed, with their events."""
        await self._has_caught_up.wait()
        await self.outbox.wait_for(REPORT_SECONDS, Rank.SCHEDULED)

    def _start_reflectors(self) -> None:
        self._waits_to_list = False
        for reflector in self.reflectors:
            self._tasks.start(f"reflector {reflector.kind.value}", reflector.run)
        self._tasks.start("sync", self._wait_for_sync, is_vital=False)
        if self.labelled_pods is not None:
            self._tasks.start("reflector of grouped pods", self.labelled_pods.run, is_vital=False)

    async def _wait_for_sync(self) -> None:
        """Wait until every reflector is synced; its first list is then in the inbox."""
        await asyncio.to_thread(import_masked_arrays)
        until_report = SYNC_REPORT_SECONDS
        for reflector in self.reflectors:
            while not reflector.synced.is_set():
                try:
                    async with asyncio.timeout(until_report):
                        await reflector.synced.wait()
                except TimeoutError:
                    until_report = SYNC_REPEAT_SECONDS
                    if self.outage.is_reported:
                        # The outage is logged once a minute, with its reason and kinds.
                        continue
                    waiting = {r.kind.value: r.health.value for r in self.reflectors if not r.synced.is_set()}
                    log.warning("Still waiting for the first lists; nothing is scheduled", kinds=waiting)
        await self.inbox.emptied()
        await self.devices_seen.settled()
        garbage.keep_what_is_there()
        self._is_synced = True
        self.inbox.put(Synced())
        self._start_background()
        if self._settings.reconcile_seconds > 0:
            reconciling = partial(self.reconciler.run, self._settings.reconcile_seconds)
            self._tasks.start("reconciliation", reconciling, is_vital=False)
        if self.statuses is not None:
            self._tasks.start("pod groups' status", self._keep_statuses, is_vital=False)
        log.info("Handlers synced", objects={r.kind.value: r.object_count for r in self.reflectors if r.object_count})
        await self._start_operator_when_idle()

    def _start_election(self) -> None:
        if self.token is not None:
            self._election = Election(
                CredentialSource(self._settings.connection, self._environment),
                self._settings.leader_election,
                Claimant(self._identity, self._lease_annotations),
                self.token,
                outage=self.outage,
                on_won=self._on_won,
                on_end=lambda: self._end("" if self._is_stopping else "Leaderelection lost"),
            )
            self._election.observe = self.requests.observe
            self._election.start()

    def _lease_annotations(self) -> dict[str, str]:
        serving = self._settings.serving
        fingerprint = "" if serving.certificate is None else serving.certificate.fingerprint
        return announced(self._settings.own_pod, serving.port, fingerprint)

    def _on_won(self, lease: LeaseReference) -> None:
        if not self._settings.is_shadow:
            note = f"{self._identity} became leader"
            self.events.record(WriteEvent(lease, "Normal", "LeaderElection", "LeaderElection", note, EVENT_SOURCE))
        if self._waits_to_list:
            self._start_reflectors()
        self.inbox.wake()
        self._start_background()

    def _start_background(self) -> None:
        """Start the plugins' background parts, once this replica schedules."""
        is_deciding = self._is_synced and self._leadership.is_held() and not self._is_stopping
        if is_deciding and not self._settings.is_shadow:
            self.background.start()

    async def _keep_statuses(self) -> None:
        assert self.statuses is not None and self.labelled_pods is not None
        await self.labelled_pods.synced.wait()
        await self.statuses.run()

    async def _start_operator_when_idle(self) -> None:
        """Start kopf once the pods that waited for this start are placed: its import takes 0.1 s of CPU in a thread.
        With an endpoint for probes it is started at once."""
        if not self._settings.operator.liveness_port:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OPERATOR_WAIT_SECONDS):
                    await self._was_idle.wait()
        self._start_operator()

    def _start_operator(self) -> None:
        """Start kopf after the first lists: importing it would delay them. Does nothing if it runs."""
        if not self._settings.operator.enabled or self._operator is not None or self._is_stopping:
            return
        options, callbacks = self._settings.operator, self._parts.callbacks
        if self.reloader is not None:
            origin = f"ConfigMap {options.config_map_namespace}/{options.config_map_name}"
            offer = self.reloader.offer_data
            callbacks = replace(callbacks, on_configuration=lambda data: offer(data, options.config_map_key, origin))
            if options.config_map_name:
                looking = partial(report_absence, self.client, options, partial(self.reloader.is_absent, origin))
                self._tasks.start("ConfigMap", looking, is_vital=False)
        self._operator = KopfOperator(
            options,
            CredentialSource(self._settings.connection, self._environment),
            callbacks,
            Proofs(last_beat=lambda: self.loop.counts.beat, is_leading=self._leadership.is_held),
        )
        self._operator.start()

    # --- end ---------------------------------------------------------------------------------------------------------

    async def _until_the_end(self, signals: StopSignals) -> int:
        signalled = asyncio.create_task(signals.wait(), name="signals")
        ended = asyncio.create_task(self._ended.wait(), name="end")
        await asyncio.wait((signalled, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not signalled.done():
            signalled.cancel()
            log.error(self._failure)
            return EXIT_FAILED
        log.info("Requested to terminate, exiting", signal=signalled.result())
        return await self._leave()

    async def _leave(self) -> int:
        """Shut down in order: no more pods, binds settled, Lease released, kopf stopped."""
        self._is_stopping = True
        self.loop.stop_popping()
        await self.background.stop()
        is_settled = await self._settle(self._settings.settle_seconds)
        if not is_settled:
            still_open = self.sink.open_writes + self._parts.unknown_binds()
            log.warning("Writes still open are left to the API server", writes=still_open)
        await self.events.settle(EVENT_SETTLE_SECONDS)
        if is_settled:
            log.info("Binds settled")
        if self._election is not None:
            await self._election.stop(self._settings.leader_election.renew_deadline)
        if self._operator is not None:
            await self._operator.stop()
            self._operator = None
        return EXIT_STOPPED

    async def _settle(self, seconds: float) -> bool:
        """Wait until every write has a conclusive answer; those binds without one are sent again meanwhile. Left open,
        one may still be carried out once the next leader has given its room away."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if not await self.sink.settle(seconds):
                        return False
                    if not self._parts.unknown_binds():
                        return True
                    await asyncio.sleep(SETTLE_LOOK_SECONDS)
        except TimeoutError:
            return False

    async def _close(self) -> None:
        self._is_stopping = True
        if self.token is not None:
            self.token.revoke()
        await self._tasks.close()
        await self.sink.close()
        await self.extenders.close()
        await self.background.stop()
        await self.plugins.close()
        if self._election is not None:
            await self._election.stop(THREAD_STOP_SECONDS)
        if self._operator is not None:
            await self._operator.stop()
        await self.server.close()
        await self.client.close()
        await self.page_client.close()
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.close)
        if self.journal is not None:
            await asyncio.to_thread(self.journal.close)
        if self._parts.recorder is not None:
            await asyncio.to_thread(self._parts.recorder.close)
