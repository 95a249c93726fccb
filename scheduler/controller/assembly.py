"""The parts of the shell and how they are connected, the inbox first and the scheduling loop last.

``run.py`` starts and stops them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Final

import structlog

from scheduler.config.tandem import configuration_document
from scheduler.controller import garbage
from scheduler.controller.beside.coscheduling_status import SELECTOR, CoschedulingStatuses
from scheduler.controller.beside.kubelet_refusals import KubeletRefusals
from scheduler.controller.beside.shadow import ShadowWriter
from scheduler.controller.calls.background import BackgroundParts, PluginInbox
from scheduler.controller.calls.extender_calls import ExtenderCalls
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.carrying_out import CommandCarrier, CommandSink
from scheduler.controller.dispatch import Dispatcher
from scheduler.controller.inbox import Inbox
from scheduler.controller.late_imports import ONE_AT_A_TIME
from scheduler.controller.loop import SchedulingLoop, read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.reload import ConfigurationReloader, InForce, NewConfiguration, Prepare
from scheduler.controller.report.component_metrics import RestClientMetrics, add_component_metrics
from scheduler.controller.report.groups import GroupLog, GroupMetrics
from scheduler.controller.report.journal import Journal
from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.report.outage import Outage
from scheduler.controller.report.recorders import GroupRecorder, Recorder, attempt_log
from scheduler.controller.report.tracing import start_tracing
from scheduler.controller.serve.late_server import LateServer, LoadedServer
from scheduler.controller.serve.reviews import review_client
from scheduler.controller.settings import ShellSettings
from scheduler.controller.shell_metrics import watch_serving, watch_shell
from scheduler.controller.tasks import Tasks
from scheduler.controller.watch.feed import WatchFeed
from scheduler.controller.watch.first_seen import OnceSeen
from scheduler.controller.watch.health import silent_kinds
from scheduler.controller.watch.known import KnownObjects
from scheduler.controller.watch.reconcile import Reconciler
from scheduler.controller.watch.reflector import Reading, Reflector
from scheduler.controller.write.client import client_of
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.events import EventRecorder
from scheduler.controller.write.leadership import AlwaysHeld, LeaseToken
from scheduler.controller.write.outbox import Outbox
from scheduler.controller.write.requests import WriteRequests
from scheduler.controller.write.writer import Writer
from scheduler.messages.commands import ReportKnownObjects, ReportRepairs, WriteEvent
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.kinds import Kind

LEASE_OVERDUE_SECONDS: Final = 20.0
EVENT_SOURCE: Final = "tandem-scheduler"  # of events about this scheduler

log = structlog.get_logger()


class Assembly:
    """All parts of one running scheduler, and what they ask about its state."""

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
        self._waits_to_list = settings.delay_cache_until_active and self.token is not None
        """Whether it lists and watches nothing until it leads."""
        self.client = client_of(settings.connection, environment)
        # Requests caused by page visitors must not delay bindings.
        self.page_client = review_client(CredentialSource(settings.connection, environment))
        self.metrics = SchedulerMetrics()
        self.requests = RestClientMetrics(self.metrics.instruments)
        self.client.observe = self.page_client.observe = self.requests.observe
        add_component_metrics(
            self.metrics.instruments,
            version=settings.version,
            kubernetes=settings.kubernetes,
            gates=settings.gates,
            lease=settings.leader_election.resource_name,
            leads=self.token.is_held if self.token is not None else None,
        )
        self.journal = Journal(settings.journal) if settings.journal is not None else None
        self.outbox = Outbox(settings.tandem.limits.requests_in_flight)
        self.events = EventRecorder(
            self.client, leadership, settings.hostname, settings.writer, self.outbox, read_clock
        )
        self.extenders = ExtenderCalls(self.inbox.put, leadership, parts.extender_ssl, environment)
        if parts.has_extenders:
            self.extenders.load()
        self.plugins = PluginCalls(self.inbox.put, leadership, parts.plugin_calls)
        plugin_inbox = PluginInbox(parts.engine.waiting_pods, self.inbox.put)
        self.background = BackgroundParts(plugin_inbox, parts.background, leadership)
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
        self.dispatcher = Dispatcher(
            self.sink, self._recorders(), self._reconcile, self.plugins.stop, self._recorders_of_groups()
        )
        self.loop = SchedulingLoop(
            parts.engine,
            self.inbox,
            self.dispatcher.dispatch,
            self._may_pop,
            after_slice=self._after_slice,
            culprit=parts.culprit,
        )
        self._was_idle = asyncio.Event()
        self._has_caught_up = asyncio.Event()
        """Whether every kind has been listed, and at some time since then no write was open."""
        self._garbage = garbage.Collector()
        self.loop.when_idle = self._when_idle
        self.statuses = self._group_statuses() if settings.keeps_group_counts and not settings.is_shadow else None
        self.devices_seen = OnceSeen(parts.load_selectors)
        feed = WatchFeed(self.inbox, self.refusals, self.shadow, self.devices_seen, self.statuses)
        self.outage = Outage()
        self.reflectors = [
            Reflector(
                kind,
                self.client,
                feed.intake_of(kind),
                Reading(with_documents=kind in parts.kinds_sent_whole, change=feed.change_of(kind)),
                step=self.loop.steps.step,
                outage=self.outage,
            )
            for kind in settings.kinds
        ]
        self.known.read_from(self.reflectors)
        self.labelled_pods = None if self.statuses is None else self._labelled_pods(self.statuses)
        self.reconciler = Reconciler(
            self.reflectors,
            self.client,
            self.inbox,
            self.metrics.repairs,
            node_for_engine=self.refusals.node_for_engine,
            step=self.loop.steps.step,
        )
        self.server = LateServer(settings.serving, self._load_server, settings.component_config)
        self.reloader = self._reloader(parts.prepare) if parts.prepare is not None else None
        watch_serving(self.metrics, self.server, self.journal)
        self._tasks = Tasks(self._end, self.metrics.task_failures)
        watch_shell(self.metrics, self, parts)

    def _end(self, failure: str) -> None:
        if not self._ended.is_set():
            self._failure = failure
            self._ended.set()

    def _after_slice(self) -> None:
        self._garbage.after_slice()
        if self.journal is not None:
            self.journal.flush()
        if self._parts.recorder is not None:
            self._parts.recorder.flush()
        if not self._has_caught_up.is_set() and self._is_synced and not self.sink.open_writes:
            self._has_caught_up.set()

    def _when_idle(self) -> None:
        self._garbage.when_idle()
        if self._is_synced and not self.sink.open_writes:
            self._was_idle.set()

    def _may_pop(self, pods_before: int) -> bool:
        self._parts.between_cycles.try_all()
        return self._is_synced and self.sink.has_room_for(pods_before + 1) and self._leadership.is_held()

    def _carrier(self) -> CommandCarrier:
        requests = WriteRequests(self.client, self._settings.writer)
        binds_queued = self._settings.tandem.limits.queued_writes
        writer = Writer(requests, self._leadership, self.outbox, self._write_finished, random.random, binds_queued)
        return CommandCarrier(self.inbox, self.outbox, writer, self.events, self.extenders, self.plugins)

    def _write_finished(self, outcome: WriteFinished) -> None:
        self.inbox.put(outcome)
        if outcome.written is not None:
            self.inbox.put_all(self.known.answered(outcome.written))

    def _shadow(self) -> ShadowWriter:
        return ShadowWriter(self.inbox, self.extenders, self.known.node_of, self.metrics.shadow_decisions)

    def _group_statuses(self) -> CoschedulingStatuses:
        return CoschedulingStatuses(
            lambda: self.known.all(Kind.COSCHEDULING_POD_GROUP),
            self.sink.submit,
            lambda: self._leadership.is_held() and not self._is_stopping,
            read_clock,
        )

    def _labelled_pods(self, statuses: CoschedulingStatuses) -> Reflector:
        reading, step = Reading(selector=SELECTOR), self.loop.steps.step
        return Reflector(Kind.POD, self.client, statuses, reading, step=step, outage=self.outage)

    def _reconcile(self, answer: ReportKnownObjects | ReportRepairs) -> None:
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
            self.metrics.observe_group,
            GroupLog(self._settings.logs.verbosity).write,
        ]
        if self.journal is not None:
            recorders.append(self.journal.write_group)
        return tuple(recorders)

    def _not_synced(self) -> str:
        # One that only begins to list when it leads is as ready as it can be: else no new copy would ever be ready
        # beside the leader, and a rolling update would not end.
        return "" if self._is_synced or self._waits_to_list else "handlers are not fully synchronized"

    def _load_server(self) -> LoadedServer:
        """With all imports that need aiohttp: see ``late_server``."""
        with ONE_AT_A_TIME:
            from scheduler.controller.serve.loading import WhatPagesNeed, load_server

            routes = self._parts.routes(self._leadership.is_held)

        def election() -> str:
            is_overdue = self.token is not None and self.token.overdue_seconds > LEASE_OVERDUE_SECONDS
            return "failed election to renew leadership on lease" if is_overdue else ""

        return load_server(
            self._settings.serving,
            WhatPagesNeed(
                hostname=self._settings.hostname,
                metrics=self.metrics,
                ready_checks={
                    "leaderElection": election,
                    "shutdown": lambda: "process is shutting down" if self._is_stopping else "",
                    "sched-handler-sync": self._not_synced,
                    "watches": lambda: silent_kinds(self.reflectors),
                    "tasks": lambda: self._tasks.trouble(),
                },
                routes=routes,
                shadow=self.shadow,
                step=self.loop.steps.step,
                reviews=self.page_client,
                server=self.server,
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
        self.server.tandem_config = configuration_document(settings.tandem)
        reloader = ConfigurationReloader(
            prepare,
            self.metrics.reloads,
            read_clock,
            self._parts.between_cycles,
            started=InForce(
                settings.configuration_text, {**settings.component_config, "tandem": self.server.tandem_config}
            ),
            taken=taken,
            announce=announce,
        )
        self.server.last_reload = lambda: reloader.last
        return reloader
