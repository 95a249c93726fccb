"""The scheduler's life cycle: start order, causes of its end, and shutdown (docs/kube-scheduler/cycle.md §1).

1. The parts are made, the inbox first and the scheduling loop last: ``Shell.__init__``.
2. Credentials are loaded, the server starts (probes answer while a big cluster loads), signals are caught: ``run``.
3. Loop, reflectors and the Lease start: ``_start``.
4. When every kind is listed and applied, kopf starts, and if the Lease is ours, pods are taken: ``_wait_for_sync``,
   ``_may_pop``.
5. SIGTERM: no further pod is taken, writes are settled, the Lease is given back, kopf stops; exit code 0: ``_leave``.
6. The Lease is lost, or a vital task ends: exit code 1 at once.
7. In any case all parts are closed: ``_close``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import structlog

from scheduler.controller import garbage
from scheduler.controller.beside.kubelet_refusals import KubeletRefusals
from scheduler.controller.beside.shadow import ShadowWriter
from scheduler.controller.calls.background import BackgroundParts, PluginInbox
from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.carrying_out import CommandCarrier, CommandSink
from scheduler.controller.dispatch import Dispatcher
from scheduler.controller.inbox import Inbox
from scheduler.controller.lead.election import Election
from scheduler.controller.lead.leadership import AlwaysHeld, LeaseToken
from scheduler.controller.loop import SchedulingLoop, read_clock
from scheduler.controller.operator import KopfOperator, Proofs
from scheduler.controller.parts import EngineFactory, Parts
from scheduler.controller.reload import ConfigurationReloader, NewConfiguration, Prepare
from scheduler.controller.report.component_metrics import RestClientMetrics, add_component_metrics
from scheduler.controller.report.groups import GroupLog, GroupMetrics
from scheduler.controller.report.journal import Journal
from scheduler.controller.report.logs import configure_logs
from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.report.recorders import GroupRecorder, Recorder, attempt_log
from scheduler.controller.report.shell_metrics import watch_serving, watch_shell
from scheduler.controller.report.tracing import start_tracing
from scheduler.controller.rights import report_missing_rights
from scheduler.controller.serve.authorization import guards
from scheduler.controller.serve.certificate_upkeep import keep_up
from scheduler.controller.serve.names import refusing_unasked
from scheduler.controller.serve.pages import shadow_route
from scheduler.controller.serve.reviews import review_client
from scheduler.controller.serve.same_origin import of_same_site
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.settings import ShellSettings
from scheduler.controller.signals import StopSignals
from scheduler.controller.tasks import Tasks
from scheduler.controller.watch.feed import WatchFeed
from scheduler.controller.watch.health import silent_kinds
from scheduler.controller.watch.known import KnownObjects
from scheduler.controller.watch.outage import Outage
from scheduler.controller.watch.reconcile import Reconciler
from scheduler.controller.watch.reflector import Reading, Reflector
from scheduler.controller.write.client import client_of
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.events import EventRecorder
from scheduler.controller.write.outbox import Outbox
from scheduler.controller.write.requests import WriteRequests
from scheduler.controller.write.writer import Writer
from scheduler.errors import ConfigurationError
from scheduler.messages.commands import ReportRepairs, TellBelieved, WriteEvent
from scheduler.messages.stimuli import Synced

EXIT_STOPPED = 0
EXIT_FAILED = 1
LEASE_OVERDUE_SECONDS = 20.0
SYNC_REPORT_SECONDS = 10.0
SYNC_REPEAT_SECONDS = 60.0
EVENT_SETTLE_SECONDS = 2.0
THREAD_STOP_SECONDS = 5.0
EVENT_SOURCE = "tandem-scheduler"  # of events about this scheduler

log = structlog.get_logger()


def run_blocking(settings: ShellSettings, factory: EngineFactory, environment: Mapping[str, str]) -> int:
    """``run`` in an event loop of its own, uvloop's where it is installed. Returns the exit code."""
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        loop_factory = importlib.import_module("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(run(settings, factory, environment))


async def run(settings: ShellSettings, factory: EngineFactory, environment: Mapping[str, str]) -> int:
    """Until stopped; returns the exit code. A wrong configuration is one line in the log and exit code 1."""
    configure_logs(settings.logs)
    garbage.collect_seldom()
    try:
        settings.leader_election.check()
        shell = Shell(settings, factory(), environment)
        return await shell.run()
    except ConfigurationError as error:
        log.error(str(error))
        return EXIT_FAILED


class Shell:
    """All parts of one running scheduler. Make it inside the event loop; ``run`` once."""

    def __init__(self, settings: ShellSettings, parts: Parts, environment: Mapping[str, str]) -> None:
        """Raises ConfigurationError if the journal can't be written."""
        self._settings = settings
        self._parts = parts
        self._environment = environment
        self._ended = asyncio.Event()
        self._failure = ""
        self._is_synced = False
        self._is_stopping = False
        self.inbox = Inbox()
        self.known = KnownObjects()
        self.token = LeaseToken() if settings.leader_election.leader_elect else None
        leadership = self.token or AlwaysHeld()
        self._leadership = leadership
        self.client = client_of(settings.connection, environment)
        # Requests caused by page visitors must not delay bindings.
        self.page_client = review_client(CredentialSource(settings.connection, environment))
        self.metrics = SchedulerMetrics()
        requests = RestClientMetrics(self.metrics.instruments)
        self.client.observe = self.page_client.observe = requests.observe
        add_component_metrics(
            self.metrics.instruments,
            version=settings.version,
            kubernetes=settings.kubernetes,
            gates=settings.gates,
            lease=settings.leader_election.resource_name,
            leads=self.token.is_held if self.token is not None else None,
        )
        self.journal = Journal(settings.journal) if settings.journal is not None else None
        self.outbox = Outbox(settings.writer.requests_in_flight)
        self.events = EventRecorder(
            self.client, leadership, settings.hostname, settings.writer, self.outbox, read_clock
        )
        self.extenders = ExtenderCalls(self.inbox.put, leadership, parts.extender_ssl)
        self.plugins = PluginCalls(self.inbox.put, leadership, parts.plugin_calls)
        plugin_inbox = PluginInbox(parts.engine.waiting_pods, self.inbox.put)
        self.background = BackgroundParts(plugin_inbox, parts.background)
        self.refusals = KubeletRefusals(
            self.client,
            self.inbox.put_all,
            self.known.node_named,
            self.known.node_count,
            self.metrics.kubelet_refusals,
        )
        self.shadow = self._shadow() if settings.is_shadow else None
        self.sink: CommandSink = self.shadow or self._carrier()
        self.tracing = start_tracing(environment, self.known.creation_of) if settings.is_tracing else None
        dispatcher = Dispatcher(self.sink, self._recorders(), self._reconcile, self._recorders_of_groups())
        self.loop = SchedulingLoop(
            parts.engine,
            self.inbox,
            dispatcher.dispatch,
            self._may_pop,
            after_slice=self._after_slice,
            culprit=parts.culprit,
        )
        feed = WatchFeed(self.inbox, self.refusals, self.shadow)
        outage = Outage()
        self.reflectors = [
            Reflector(
                kind,
                self.client,
                feed.intake_of(kind),
                Reading(with_documents=kind in parts.kinds_sent_whole),
                step=self.loop.steps.step,
                outage=outage,
            )
            for kind in settings.kinds
        ]
        self.known.read_from(self.reflectors)
        self.reconciler = Reconciler(
            self.reflectors,
            self.client,
            self.inbox,
            self.metrics.repairs,
            dressed=self.refusals.dressed,
            step=self.loop.steps.step,
        )
        self.server = self._server()
        self.reloader = self._reloader(parts.prepare) if parts.prepare is not None else None
        watch_serving(self.metrics, self.server, self.journal)
        self._tasks = Tasks(self._end, self.metrics.task_failures)
        self._election: Election | None = None
        self._operator: KopfOperator | None = None
        watch_shell(self.metrics, self, parts)

    async def run(self) -> int:
        """Raises ConfigurationError for credentials that can't be used or a port that is taken."""
        signals = StopSignals()
        try:
            credentials = await self.client.connect()
            await self.server.start()
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
        self.sink.start()
        self._tasks.start("scheduling loop", self.loop.run)
        self._tasks.start("rights", self._check_rights, is_vital=False)
        self._tasks.start("kubelets' refusals", self.refusals.run, is_vital=False)
        serving = self._settings.serving
        if serving.port and serving.certificate is not None:
            upkeep = partial(keep_up, serving.certificate, self.page_client, serving.access)
            self._tasks.start("certificate", upkeep, is_vital=False)
        if not (self._settings.delay_cache_until_active and self.token is not None):
            self._start_reflectors()
        else:
            self._start_operator()
        if self.reloader is not None:
            self._tasks.start("configuration", self.reloader.run, is_vital=False)
            if self._settings.configuration_file:
                watching = partial(self.reloader.watch, self._settings.configuration_file)
                self._tasks.start("configuration file", watching, is_vital=False)
        self._start_election()

    def _start_reflectors(self) -> None:
        for reflector in self.reflectors:
            self._tasks.start(f"reflector {reflector.kind.value}", reflector.run)
        self._tasks.start("sync", self._wait_for_sync, is_vital=False)

    async def _wait_for_sync(self) -> None:
        """Wait until every reflector is synced; its first list is then in the inbox."""
        until_report = SYNC_REPORT_SECONDS
        for reflector in self.reflectors:
            while not reflector.synced.is_set():
                try:
                    async with asyncio.timeout(until_report):
                        await reflector.synced.wait()
                except TimeoutError:
                    until_report = SYNC_REPEAT_SECONDS
                    waiting = {r.kind.value: r.health.value for r in self.reflectors if not r.synced.is_set()}
                    log.warning("Still waiting for the first lists; nothing is scheduled", kinds=waiting)
        await self.inbox.emptied()
        garbage.keep_what_is_there()
        self._is_synced = True
        self.inbox.put(Synced())
        self._start_background()
        if self._settings.reconcile_seconds > 0:
            reconciling = partial(self.reconciler.run, self._settings.reconcile_seconds)
            self._tasks.start("reconciliation", reconciling, is_vital=False)
        log.info("Handlers synced", objects={r.kind.value: r.object_count for r in self.reflectors if r.object_count})
        self._start_operator()

    async def _check_rights(self) -> None:
        await report_missing_rights(self.client, self._settings)

    def _start_election(self) -> None:
        if self.token is not None:
            self._election = Election(
                self._settings,
                self._environment,
                self.token,
                on_won=self._on_won,
                on_end=lambda: self._end("" if self._is_stopping else "Leaderelection lost"),
            )
            self._election.start()

    def _on_won(self) -> None:
        if self._settings.delay_cache_until_active:
            self._start_reflectors()
        self.inbox.wake()
        self._start_background()

    def _start_background(self) -> None:
        """Start the plugins' background parts, once this replica schedules."""
        is_deciding = self._is_synced and self._leadership.is_held() and not self._is_stopping
        if is_deciding and not self._settings.is_shadow:
            self.background.start()

    def _start_operator(self) -> None:
        """Start kopf after the first lists: importing it would delay them. Does nothing if it runs."""
        if not self._settings.operator.enabled or self._operator is not None or self._is_stopping:
            return
        options, callbacks = self._settings.operator, self._parts.callbacks
        if self.reloader is not None:
            origin = f"ConfigMap {options.config_map_namespace}/{options.config_map_name}"
            offer = self.reloader.offer_data
            callbacks = replace(callbacks, on_configuration=lambda data: offer(data, options.config_map_key, origin))
        self._operator = KopfOperator(
            options,
            CredentialSource(self._settings.connection, self._environment),
            callbacks,
            Proofs(last_beat=lambda: self.loop.counts.beat, is_leading=self._leadership.is_held),
        )
        self._operator.start()

    # --- end ---------------------------------------------------------------------------------------------------------

    def _end(self, failure: str) -> None:
        if not self._ended.is_set():
            self._failure = failure
            self._ended.set()

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
        if not await self.sink.settle(self._settings.settle_seconds):
            log.warning("Writes still open are left to the API server", writes=self.sink.open_writes)
        await self.events.settle(EVENT_SETTLE_SECONDS)
        log.info("Binds settled")
        if self._election is not None:
            await self._election.stop(self._settings.leader_election.renew_deadline)
        if self._operator is not None:
            await self._operator.stop()
            self._operator = None
        return EXIT_STOPPED

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

    # --- small parts -------------------------------------------------------------------------------------------------

    def _after_slice(self) -> None:
        if self.journal is not None:
            self.journal.flush()
        if self._parts.recorder is not None:
            self._parts.recorder.flush()

    def _may_pop(self) -> bool:
        return self._is_synced and self.sink.has_room and self._leadership.is_held()

    def _carrier(self) -> CommandCarrier:
        settings = self._settings.writer
        requests = WriteRequests(self.client, settings)
        writer = Writer(requests, self._leadership, self.outbox, self.inbox.put, random.random, settings.binds_queued)
        return CommandCarrier(self.inbox, self.outbox, writer, self.events, self.extenders, self.plugins)

    def _shadow(self) -> ShadowWriter:
        return ShadowWriter(self.inbox, self.extenders, self.known.node_of, self.metrics.shadow_decisions)

    def _reconcile(self, answer: TellBelieved | ReportRepairs) -> None:
        self.reconciler.take(answer)

    def _recorders(self) -> tuple[Recorder, ...]:
        is_shadow = self._settings.is_shadow
        recorders = [self.metrics.observe, attempt_log(self._settings.logs.verbosity, is_shadow=is_shadow)]
        if not is_shadow:
            recorders.append(self.refusals.placed)
        if self.tracing is not None:
            recorders.append(self.tracing.observe)
        if self.journal is not None:
            recorders.append(self.journal.write)
        return (*recorders, *self._parts.observers)

    def _recorders_of_groups(self) -> tuple[GroupRecorder, ...]:
        if not any(kind.entry.gate for kind in self._settings.kinds):
            return ()
        recorders = [
            GroupMetrics(self.metrics.instruments).observe,
            GroupLog(self._settings.logs.verbosity).write,
        ]
        if self.journal is not None:
            recorders.append(self.journal.write_group)
        return tuple(recorders)

    def _server(self) -> HealthServer:
        def election() -> str:
            is_overdue = self.token is not None and self.token.overdue_seconds > LEASE_OVERDUE_SECONDS
            return "failed election to renew leadership on lease" if is_overdue else ""

        routes = self._parts.routes
        if self.shadow is not None:
            routes += (shadow_route(self.shadow),)
        return HealthServer(
            self._settings.serving,
            self.metrics.registry,
            ready_checks={
                "leaderElection": election,
                "shutdown": lambda: "process is shutting down" if self._is_stopping else "",
                "sched-handler-sync": lambda: "" if self._is_synced else "handlers are not fully synchronized",
                "watches": lambda: silent_kinds(self.reflectors),
                "tasks": lambda: self._tasks.trouble(),
            },
            component_config=self._settings.component_config,
            reset_metrics=self.metrics.instruments.reset,
            routes=routes,
            guards=(
                *guards(self.page_client, self._settings.serving.access),
                of_same_site(self._settings.hostname),
                refusing_unasked(),
            ),
        )

    def _reloader(self, prepare: Prepare) -> ConfigurationReloader:
        def taken(new: NewConfiguration) -> None:
            self.plugins.add(new.plugin_calls)
            self.background.replace(new.background)
            self.server.component_config = new.component_config
            self.server.tandem_config = new.tandem_config
            self.inbox.wake()

        def announce(kind: str, reason: str, note: str) -> None:
            pod = self._settings.own_pod
            if pod is not None and not self._settings.is_shadow:
                self.events.record(WriteEvent(pod, kind, reason, "Reload", note, EVENT_SOURCE))

        settings = self._settings
        self.server.tandem_config = settings.tandem_config
        reloader = ConfigurationReloader(
            prepare,
            self.metrics.reloads,
            read_clock,
            current=settings.configuration_text,
            document={**settings.component_config, "tandem": settings.tandem_config},
            taken=taken,
            announce=announce,
        )
        self.server.last_reload = lambda: reloader.last
        return reloader
