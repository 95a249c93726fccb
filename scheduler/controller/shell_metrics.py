"""The shell's own metrics, beside kube-scheduler's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from scheduler.controller.beside.kubelet_refusals import KubeletRefusals
from scheduler.controller.carrying_out import CommandSink
from scheduler.controller.dispatch import Dispatcher
from scheduler.controller.loop import SchedulingLoop
from scheduler.controller.parts import Parts
from scheduler.controller.record.recorder import Recorder
from scheduler.controller.report.instruments import ReadCounter
from scheduler.controller.report.journal import Journal
from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.report.plugin_watch import PLUGIN_WATCH
from scheduler.controller.serve.late_server import LateServer
from scheduler.controller.watch.reflector import Reflector
from scheduler.controller.write.events import EventRecorder


class ShellNumbers(Protocol):
    """The parts of the shell that have metrics."""

    @property
    def sink(self) -> CommandSink: ...

    @property
    def events(self) -> EventRecorder: ...

    @property
    def loop(self) -> SchedulingLoop: ...

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def reflectors(self) -> Sequence[Reflector]: ...

    @property
    def refusals(self) -> KubeletRefusals: ...


def watch_shell(metrics: SchedulerMetrics, shell: ShellNumbers, parts: Parts | None = None) -> None:
    """Adds the shell's metrics to the page; each is read when scraped."""
    if parts is not None and parts.gauges is not None:
        metrics.watch_engine(parts.gauges)
    if parts is not None and parts.recorder is not None:
        _watch_recorder(metrics, parts.recorder)
    writer, events, loop, refusals = shell.sink, shell.events, shell.loop, shell.refusals
    dispatcher = shell.dispatcher
    metrics.watch_numbers(
        "scheduler_goroutines",
        "Number of running operations split by the work they do such as binding.",
        "operation",
        lambda: {"binding": writer.binds_under_way},
    )
    metrics.watch_numbers(
        "scheduler_resourceclaim_creates",
        "Number of ResourceClaims creation requests within scheduler",
        "status",
        lambda: writer.counts.claim_creations,
        is_counter=True,
    )
    count, gauge = True, False
    for name, text, read, is_counter in (
        ("tandem_open_writes", "Writes queued or in flight.", lambda: writer.open_writes, gauge),
        ("tandem_failed_writes", "Writes that failed for good.", lambda: writer.counts.failed, count),
        ("tandem_merged_writes", "Status patches folded into a later write.", lambda: writer.merged, count),
        ("tandem_bind_lookups", "Binds that were refused and looked up.", lambda: writer.counts.looked_up, count),
        ("tandem_unknown_binds", "Binds without an answer.", lambda: writer.counts.unknown, count),
        (
            "tandem_writes_without_lease",
            "Writes that lost leadership stopped.",
            lambda: writer.counts.refused_without_lease,
            count,
        ),
        ("tandem_events_written", "Events written.", lambda: events.counts.written, count),
        ("tandem_events_aggregated", "Events counted in a series.", lambda: events.counts.aggregated, count),
        ("tandem_events_dropped", "Events dropped under load.", lambda: events.counts.dropped, count),
        ("tandem_events_queued", "Events waiting to be written.", lambda: events.queued, gauge),
        (
            "tandem_nodes_left_alone",
            "Nodes avoided for a while, since their kubelet refused a pod that we bound.",
            lambda: len(refusals.backed_off),
            gauge,
        ),
        ("tandem_loop_errors", "Errors of the scheduling loop.", lambda: loop.counts.errors + dispatcher.errors, count),
        ("tandem_slow_steps", "Steps of the event loop longer than 100 ms.", lambda: loop.steps.slow_steps, count),
        (
            "tandem_longest_step_seconds",
            "The longest step of the event loop so far.",
            lambda: loop.steps.longest_seconds,
            gauge,
        ),
        (
            "tandem_longest_step_cpu_seconds",
            "Most CPU of a step of the event loop so far, at most. A longer step waited for a processor.",
            lambda: loop.steps.longest_cpu_seconds,
            gauge,
        ),
        (
            "tandem_longest_step_timestamp_seconds",
            "When the longest step of the event loop ended, as Unix time.",
            lambda: loop.steps.longest_at,
            gauge,
        ),
    ):
        metrics.watch_number(name, text, read, is_counter=is_counter)
    _watch_plugins(metrics)
    reflectors = shell.reflectors
    metrics.watch_numbers(
        "tandem_objects", "Objects known, by kind.", "kind", lambda: {r.kind.value: r.object_count for r in reflectors}
    )
    metrics.watch_numbers(
        "tandem_unreadable_objects",
        "Objects whose present version can't be read; the last readable one counts.",
        "kind",
        lambda: {r.kind.value: len(r.mirror.unreadable) for r in reflectors},
    )
    metrics.watch_numbers(
        "tandem_unreadable_answers",
        "Objects, lines of watches and lists that could not be read, each time.",
        "kind",
        lambda: {r.kind.value: r.mirror.rejected for r in reflectors},
        is_counter=True,
    )
    metrics.watch_numbers(
        "tandem_watch_silence_seconds",
        "Time since the API server last sent a list, a line of a watch or a bookmark of a kind.",
        "kind",
        lambda: {r.kind.value: r.silence_seconds for r in reflectors},
    )
    metrics.watch_numbers(
        "tandem_relists",
        "Lists after the first.",
        "kind",
        lambda: {r.kind.value: r.relists for r in reflectors},
        is_counter=True,
    )


def _watch_recorder(metrics: SchedulerMetrics, recorder: Recorder) -> None:
    counts = recorder.counts
    metrics.watch_number("tandem_recorded_inputs", "Inputs recorded.", lambda: counts.entries, is_counter=True)
    metrics.watch_number("tandem_recorded_bytes", "Bytes of recordings written.", lambda: counts.bytes, is_counter=True)
    text = "Inputs that could not be recorded: a disk that was full or slow."
    metrics.watch_number("tandem_inputs_not_recorded", text, lambda: counts.lost, is_counter=True)


def _watch_plugins(metrics: SchedulerMetrics) -> None:
    """Adds the calls of user plugins that were too slow, and their exceptions, by plugin and extension point."""
    for name, text, counts in (
        ("tandem_plugin_slow_calls", "Calls of user plugins of more than 100 ms.", PLUGIN_WATCH.slow_calls),
        ("tandem_plugin_errors", "Exceptions of user plugins.", PLUGIN_WATCH.errors),
    ):
        metrics.instruments.add(ReadCounter(name, text, ("plugin", "extension_point"), partial(_pairs, counts)))


def _pairs(counts: Mapping[tuple[str, str], int]) -> list[tuple[tuple[str, ...], float]]:
    return [(labels, float(count)) for labels, count in counts.items()]


def watch_serving(metrics: SchedulerMetrics, server: LateServer, journal: Journal | None) -> None:
    """Adds what clients of the pages, and a slow disk, were refused or lost."""
    text = "Connections to the pages that were cut or refused, so that others get through."
    metrics.watch_number(
        "tandem_page_connections_cut",
        text,
        lambda: server.counts.cut,
        is_counter=True,
    )
    if journal is not None:
        text = "Lines of the journal that the disk did not take, or not in time."
        metrics.watch_number("tandem_journal_lines_dropped", text, lambda: journal.dropped_lines, is_counter=True)
