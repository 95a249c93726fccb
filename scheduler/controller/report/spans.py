"""One trace per pod, from its creation to its binding, derived from Attempts.

The root span is the pod; below it are the attempts, and below those the extension points in sequence, and the binding.
The trace's id is the pod's UID, and the root's id is derived from it: so attempts of different replicas, or after a
restart, belong to one trace without any state kept between them. The root is exported last, with the binding.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from scheduler.controller.report.tracing import SERVICE_NAME, CreationOf
from scheduler.engine.attempt import ERROR, SCHEDULED, Attempt
from scheduler.objects.timestamps import parse_time


def exporting(environment: Mapping[str, str], creation_of: CreationOf) -> PodTraces:
    """Traces exported by OTLP over HTTP, in batches from the exporter's thread. Raises ValueError."""
    return PodTraces(BatchSpanProcessor(OTLPSpanExporter()), environment, creation_of)


class _Ids(RandomIdGenerator):
    """Random ids, except for the next root span's, which is set in advance."""

    def __init__(self) -> None:
        self.next_root: SpanContext | None = None

    def generate_trace_id(self) -> int:
        return self.next_root.trace_id if self.next_root is not None else super().generate_trace_id()

    def generate_span_id(self) -> int:
        return self.next_root.span_id if self.next_root is not None else super().generate_span_id()


class PodTraces:
    """Call ``observe`` right when an attempt ends, on one thread."""

    def __init__(
        self,
        processor: SpanProcessor,
        environment: Mapping[str, str],
        creation_of: CreationOf,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._ids = _Ids()
        is_named = "OTEL_SERVICE_NAME" in environment or "service.name=" in environment.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        )
        resource = Resource.create({} if is_named else {"service.name": SERVICE_NAME})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("scheduler")
        self._creation_of = creation_of
        self._wall = wall

    def observe(self, attempt: Attempt) -> None:
        root = _root_of(attempt.uid)
        if not attempt.result or not self._is_sampled(root):
            return
        end = self._wall()
        below_root = trace.set_span_in_context(NonRecordingSpan(root), Context())
        span = self._tracer.start_span(
            f"attempt {attempt.number}", below_root, start_time=attempt.started_wall, attributes=_attributes(attempt)
        )
        below = trace.set_span_in_context(span, Context())
        start = attempt.started_wall
        for point, seconds in attempt.durations.items():
            finish = min(start + int(seconds * 1e9), end)
            self._tracer.start_span(point, below, start_time=start).end(finish)
            start = finish
        if attempt.node:
            self._tracer.start_span("Binding", below, start_time=start).end(end)
        if attempt.result == ERROR:
            span.set_status(Status(StatusCode.ERROR, attempt.message))
        span.end(end)
        if attempt.result == SCHEDULED:
            self._end_root(root, attempt, end)

    def close(self) -> None:
        self._provider.shutdown()

    def _is_sampled(self, root: SpanContext) -> bool:
        """Whether the environment's sampler takes the root, so that a trace is exported completely or not at all."""
        decision = self._provider.sampler.should_sample(None, root.trace_id, "pod").decision
        return decision is Decision.RECORD_AND_SAMPLE

    def _end_root(self, root: SpanContext, attempt: Attempt, end: int) -> None:
        start = attempt.started_wall - int(attempt.queued_seconds * 1e9)
        created = self._creation_of(attempt.pod)
        if created:
            start = min(start, parse_time(created))
        namespace, _, name = attempt.pod.rpartition("/")
        attributes: dict[str, AttributeValue] = {
            "k8s.namespace.name": namespace,
            "k8s.pod.name": name,
            "k8s.pod.uid": attempt.uid,
            "k8s.node.name": attempt.node,
            "scheduler.profile": attempt.scheduler_name,
            "scheduler.attempts": attempt.number,
        }
        self._ids.next_root = root
        try:
            span = self._tracer.start_span("pod", Context(), start_time=start, attributes=attributes)
        finally:
            self._ids.next_root = None
        span.end(end)


def _attributes(attempt: Attempt) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "scheduler.result": attempt.result,
        "scheduler.nodes": attempt.total_nodes,
        "scheduler.nodes.evaluated": attempt.evaluated_nodes,
        "scheduler.nodes.feasible": attempt.feasible_nodes,
    }
    for name, text in (
        ("k8s.node.name", attempt.node),
        ("scheduler.message", attempt.message),
        ("scheduler.nominated_node", attempt.nominated_node),
    ):
        if text:
            attributes[name] = text
    if attempt.victims:
        attributes["scheduler.victims"] = list(attempt.victims)
    return attributes


def _root_of(uid: str) -> SpanContext:
    digest = hashlib.blake2b(uid.encode(), digest_size=16).digest()
    try:
        trace_id = uuid.UUID(uid).int
    except ValueError:
        trace_id = int.from_bytes(digest)
    span_id = int.from_bytes(digest[:8]) or 1
    return SpanContext(trace_id or 1, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
