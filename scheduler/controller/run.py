"""The scheduler's life: what starts after what, what ends it, and how it leaves (reference cycle.md §1).

Start: credentials, engine, server (probes answer while a big cluster loads), signal handlers, writers, reflectors,
Lease, loop, kopf. Pods are taken when all kinds are synced and the lease is ours.
SIGTERM: stop taking pods, settle binds, release the Lease, stop kopf; exit code 0. Lease lost: exit code 1 at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog

from scheduler.controller.beside.kubelet_refusals import KubeletRefusals
from scheduler.controller.beside.shadow import ShadowWriter
from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.dispatch import Dispatcher
from scheduler.controller.lead.election import Election
from scheduler.controller.lead.leadership import AlwaysHeld, LeaseToken
from scheduler.controller.loop import SchedulingLoop, read_clock
from scheduler.controller.operator import KopfOperator, Proofs
from scheduler.controller.parts import EngineFactory, Parts
from scheduler.controller.reload import ConfigurationReloader, NewConfiguration, Prepare
from scheduler.controller.report.journal import Journal
from scheduler.controller.report.logs import AttemptLog, configure_logs
from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.report.shell_metrics import watch_shell
from scheduler.controller.report.tracing import start_tracing
from scheduler.controller.rights import report_missing_rights
from scheduler.controller.serve.authorization import guards
from scheduler.controller.serve.certificate_upkeep import keep_up
from scheduler.controller.serve.pages import shadow_route
from scheduler.controller.serve.reviews import review_client
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.settings import ShellSettings
from scheduler.controller.signals import StopSignals
from scheduler.controller.tasks import Tasks
from scheduler.controller.watch.health import silent_kinds
from scheduler.controller.watch.reconcile import Reconciler
from scheduler.controller.watch.reflector import Reflector, Sink
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.events import EventRecorder
from scheduler.controller.write.request_limiter import RequestLimiter
from scheduler.controller.write.requests import WriteRequests
from scheduler.controller.write.writer import Writer
from scheduler.engine.attempt import SCHEDULED, Attempt
from scheduler.errors import ConfigurationError
from scheduler.messages.commands import WriteEvent
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import Stimulus, Synced
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.timestamps import format_seconds

EXIT_STOPPED = 0
EXIT_FAILED = 1
LEASE_OVERDUE_SECONDS = 20.0
SYNC_REPORT_SECONDS = 10.0
EVENT_SETTLE_SECONDS = 2.0
THREAD_STOP_SECONDS = 5.0
YOUNG_OBJECTS = 20_000
"""So many more containers than were freed, and the garbage collector looks at them: some two thousand placed pods."""
EVENT_SOURCE = "tandem-scheduler"
"""Who speaks in events that are about ourselves."""

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
    # What a pod leaves behind is kept or freed by its count of references; the collector finds nothing, and walking the
    # young objects every few pods was a twentieth of what a pod costs. It stays for what plugins may tie into knots.
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
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
        self.token = LeaseToken() if settings.leader_election.leader_elect else None
        leadership = self.token or AlwaysHeld()
        self._leadership = leadership
        connection = settings.connection
        limiter = None
        if connection.requests_per_second is not None:
            limiter = RequestLimiter(connection.requests_per_second, connection.burst)
        self.client = ApiClient(
            CredentialSource(connection, environment),
            limiter=limiter,
            connections=256,
            timeout_seconds=connection.timeout_seconds,
        )
        self.page_client = review_client(CredentialSource(connection, environment))
        """For those who ask for pages: what they cause must not wait before bindings."""
        self.metrics = SchedulerMetrics()
        self.journal = Journal(settings.journal) if settings.journal is not None else None
        self.writer = self._shadow_writer() if settings.is_shadow else self._writer()
        if isinstance(writer := self.writer, Writer):
            self.metrics.bind_seconds = lambda: writer.bind_seconds
        self.events = EventRecorder(
            self.client,
            leadership,
            settings.hostname,
            settings.writer,
            on_room=lambda: self.loop.wake(),
            gives_way=lambda: self.writer.is_pressed,
            is_crowded=lambda: self.writer.is_crowded,
        )
        self.extenders = ExtenderCalls(lambda answer: self.loop.feed_one(answer), parts.extender_ssl)
        self.plugins = PluginCalls(lambda finished: self.loop.feed_one(finished), parts.plugin_calls)
        self.refusals = KubeletRefusals(
            self.client,
            lambda stimuli: self.loop.feed(stimuli),
            self._node_named,
            self._node_count,
            self.metrics.kubelet_refusals,
        )
        self.tracing = start_tracing(environment, self._creation_of) if settings.is_tracing else None
        dispatcher = Dispatcher(
            self.writer,
            self.events,
            self.extenders,
            self.plugins,
            self._recorders(),
            lambda answer: self.reconciler.take(answer),
        )
        self.loop = SchedulingLoop(
            parts.engine,
            dispatcher.dispatch,
            self._may_pop,
            after_slice=self._after_slice,
        )
        self.reflectors = [
            Reflector(
                kind,
                self.client,
                self._sink_of(kind),
                with_documents=kind in parts.kinds_sent_whole,
                step=self.loop.steps.step,
            )
            for kind in settings.kinds
        ]
        self.reconciler = Reconciler(
            self.reflectors,
            self.client,
            self.loop.feed_one,
            self.metrics.repairs,
            dressed=self.refusals.dressed,
            step=self.loop.steps.step,
        )
        for kind in settings.kinds:
            # On the page from the start: a series that begins with its first repair has no increase.
            self.metrics.repairs.child(kind.value)
        self.server = self._server()
        self.reloader = self._reloader(parts.prepare) if parts.prepare is not None else None
        self._watch_serving()
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
            log.info("Starting", server=credentials.server, credentials=credentials.source)
            if self._settings.is_shadow:
                log.warning("Shadow mode: nothing is written but the Lease")
            self._start()
            return await self._until_the_end(signals)
        finally:
            signals.remove()
            await self._close()

    # --- start -------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.writer.start()
        self.events.start()
        self._tasks.start("scheduling loop", self.loop.run)
        self._tasks.start("rights", self._check_rights, is_vital=False)
        self._tasks.start("kubelets' refusals", self.refusals.run, is_vital=False)
        serving = self._settings.serving
        if serving.port and serving.certificate is not None:
            upkeep = partial(keep_up, serving.certificate, self.page_client, serving.access)
            self._tasks.start("certificate", upkeep, is_vital=False)
        if not (self._settings.delay_cache_until_active and self.token is not None):
            self._start_reflectors()
        if self.reloader is not None:
            self._tasks.start("configuration", self.reloader.run, is_vital=False)
            if self._settings.configuration_file:
                watching = partial(self.reloader.watch, self._settings.configuration_file)
                self._tasks.start("configuration file", watching, is_vital=False)
        self._start_election()
        self._start_operator()

    def _start_reflectors(self) -> None:
        for reflector in self.reflectors:
            self._tasks.start(f"reflector {reflector.kind.value}", reflector.run)
        self._tasks.start("sync", self._wait_for_sync, is_vital=False)

    async def _wait_for_sync(self) -> None:
        """Each first list has been applied when its reflector says that it is synced: nothing is left to wait for."""
        for reflector in self.reflectors:
            while not reflector.synced.is_set():
                try:
                    async with asyncio.timeout(SYNC_REPORT_SECONDS):
                        await reflector.synced.wait()
                except TimeoutError:
                    waiting = {r.kind.value: r.health.value for r in self.reflectors if not r.synced.is_set()}
                    log.warning("Still waiting for the first lists; nothing is scheduled", kinds=waiting)
        # What the first lists brought stays: the collector need not walk it again and again.
        gc.freeze()
        self._is_synced = True
        self.loop.feed_one(Synced())
        if self._settings.reconcile_seconds > 0:
            reconciling = partial(self.reconciler.run, self._settings.reconcile_seconds)
            self._tasks.start("reconciliation", reconciling, is_vital=False)
        log.info("Handlers synced", objects={r.kind.value: r.object_count for r in self.reflectors if r.object_count})

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
        self.loop.wake()

    def _start_operator(self) -> None:
        if not self._settings.operator.enabled:
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
        """In order: no more pods, binds settled, lease released, kopf stopped."""
        self._is_stopping = True
        self.loop.stop_popping()
        if not await self.writer.settle(self._settings.settle_seconds):
            log.warning("Writes still open are left to the API server", writes=self.writer.open_writes)
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
        await self.writer.close()
        await self.events.close()
        await self.extenders.close()
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

    # --- small parts -------------------------------------------------------------------------------------------------

    def _after_slice(self) -> None:
        if self.journal is not None:
            self.journal.flush()
        if self._parts.on_slice is not None:
            self._parts.on_slice()

    def _may_pop(self) -> bool:
        return self._is_synced and self.writer.has_room and self.events.has_room and self._leadership.is_held()

    def _writer(self) -> Writer:
        return Writer(
            WriteRequests(self.client, self._settings.writer, lambda: format_seconds(time.time_ns())),
            self._leadership,
            lambda finished: self.loop.feed_one(finished),
            self._settings.writer,
            random.Random().random,
        )

    def _shadow_writer(self) -> ShadowWriter:
        def node_of(pod: PodReference) -> str | None:
            found = self._known(Kind.POD, pod.key)
            return found.spec.node_name if isinstance(found, Pod) and found.uid == pod.uid else None

        return ShadowWriter(lambda stimulus: self.loop.feed_one(stimulus), node_of, self.metrics.shadow_decisions)

    def _known(self, kind: Kind, key: str) -> ApiObject | None:
        """As the API server has it, by the watch."""
        for reflector in self.reflectors:
            if reflector.kind is kind:
                return reflector.known.get(key)
        return None

    def _node_named(self, name: str) -> Node | None:
        found = self._known(Kind.NODE, name)
        return found if isinstance(found, Node) else None

    def _node_count(self) -> int:
        return sum(len(reflector.known) for reflector in self.reflectors if reflector.kind is Kind.NODE)

    def _creation_of(self, pod: str) -> str | None:
        found = self._known(Kind.POD, pod)
        return found.metadata.creation_timestamp if found is not None else None

    def _sink_of(self, kind: Kind) -> Sink:
        if kind is Kind.NODE:
            return lambda stimuli: self.loop.feed(self.refusals.dress(stimuli))
        if kind is not Kind.POD:
            return self.loop.feed
        shadow = self.writer
        if not isinstance(shadow, ShadowWriter):
            return lambda stimuli: self.loop.feed(self.refusals.dress_pods(stimuli))

        def feed(stimuli: Sequence[Stimulus]) -> None:
            self.loop.feed(stimuli)
            shadow.see(stimuli)

        return feed

    def _recorders(self) -> tuple[Callable[[Attempt], None], ...]:
        recorders: list[Callable[[Attempt], None]] = [
            self.metrics.observe,
        ]
        attempts = AttemptLog(self._settings.logs.verbosity)
        if self._settings.is_shadow:
            # Nothing is bound: what comes of a placement is told by the shadow.
            recorders.append(lambda attempt: attempts.write(attempt) if attempt.result != SCHEDULED else None)
        else:
            recorders += [attempts.write, self.refusals.placed]
        if self.tracing is not None:
            recorders.append(self.tracing.observe)
        if self.journal is not None:
            recorders.append(self.journal.write)
        return (*recorders, *self._parts.observers)

    def _server(self) -> HealthServer:
        def election() -> str:
            is_overdue = self.token is not None and self.token.overdue_seconds > LEASE_OVERDUE_SECONDS
            return "failed election to renew leadership on lease" if is_overdue else ""

        routes = self._parts.routes
        if isinstance(self.writer, ShadowWriter):
            routes += (shadow_route(self.writer),)
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
            alive_checks={},
            component_config=self._settings.component_config,
            reset_metrics=self.metrics.instruments.reset,
            routes=routes,
            guards=guards(self.page_client, self._settings.serving.access),
        )

    def _watch_serving(self) -> None:
        counts, journal = self.server.connections.counts, self.journal
        text = "Connections to the pages that were cut or refused, so that others get through."
        self.metrics.watch_number(
            "tandem_page_connections_cut",
            text,
            lambda: counts.displaced + counts.refused + counts.overdue,
            is_counter=True,
        )
        if journal is not None:
            text = "Lines of the journal that the disk did not take in time."
            self.metrics.watch_number(
                "tandem_journal_lines_dropped", text, lambda: journal.dropped_lines, is_counter=True
            )

    def _reloader(self, prepare: Prepare) -> ConfigurationReloader:
        def taken(new: NewConfiguration) -> None:
            self.plugins.add(new.plugin_calls)
            self.server.component_config = new.component_config
            self.loop.wake()

        def refused(text: str) -> None:
            pod = self._settings.own_pod
            if pod is not None and not self._settings.is_shadow:
                note = f"the last good configuration stays: {text}"
                self.events.record(WriteEvent(pod, "Warning", "ConfigurationRejected", "Reload", note, EVENT_SOURCE))

        return ConfigurationReloader(
            prepare,
            self.metrics.reloads,
            read_clock,
            current=self._settings.configuration_text,
            taken=taken,
            refused=refused,
        )
