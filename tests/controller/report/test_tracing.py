"""Traces: one a pod, whole although nothing is remembered between attempts, and sent by OTLP."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from scheduler.controller.report.spans import PodTraces
from scheduler.controller.report.tracing import start_tracing
from scheduler.engine.attempt import ERROR, SCHEDULED, UNSCHEDULABLE, Attempt
from scheduler.errors import ConfigurationError

UID = "0f5c8a52-7a8c-4a3b-9a70-0d5c8a527a8c"
SECOND = 10**9
CREATED = 1_800_000_000 * SECOND


def attempt(number: int, result: str, after: float, node: str = "", **durations: float) -> Attempt:
    started = CREATED + int(after * SECOND)
    made = Attempt("default/a", UID, "tandem-scheduler", number, started, result=result, node=node)
    made.queued_seconds = after - 0.5
    made.durations.update(durations)
    return made


def traced(attempts: Sequence[Attempt]) -> dict[str, ReadableSpan]:
    spans: dict[str, ReadableSpan] = {}
    for one in attempts:
        # A replica of its own for each: nothing is handed on between them.
        exporter, end = InMemorySpanExporter(), one.started_wall + SECOND // 10
        traces = PodTraces(SimpleSpanProcessor(exporter), {}, lambda _: "2027-01-15T08:00:00Z", partial(int, end))
        traces.observe(one)
        traces.close()
        spans |= {span.name: span for span in exporter.get_finished_spans()}
    return spans


def test_a_pod_is_one_trace_from_its_creation_to_its_binding_with_a_span_an_attempt() -> None:
    spans = traced(
        [
            attempt(1, UNSCHEDULABLE, 2.0, PreFilter=0.001, Filter=0.002, PostFilter=0.003),
            attempt(2, SCHEDULED, 9.0, "n1", PreFilter=0.001, Filter=0.002, Score=0.004),
        ]
    )
    root = spans["pod"]
    assert root.parent is None
    assert f"{root.context.trace_id:032x}" == UID.replace("-", "")
    assert {span.context.trace_id for span in spans.values()} == {root.context.trace_id}
    assert (root.start_time, root.end_time) == (CREATED, CREATED + 9 * SECOND + SECOND // 10)
    assert root.attributes is not None
    assert (root.attributes["k8s.pod.name"], root.attributes["k8s.node.name"]) == ("a", "n1")
    for name in ("attempt 1", "attempt 2"):
        parent = spans[name].parent
        assert parent is not None and parent.span_id == root.context.span_id


def test_extension_points_follow_each_other_below_their_attempt_and_the_binding_is_the_last() -> None:
    spans = traced([attempt(1, SCHEDULED, 1.0, "n1", PreFilter=0.001, Filter=0.002, Score=0.004)])
    above = spans["attempt 1"]
    edge = above.start_time
    for name in ("PreFilter", "Filter", "Score", "Binding"):
        span = spans[name]
        assert span.parent is not None and span.parent.span_id == above.context.span_id
        assert span.start_time == edge
        edge = span.end_time
    assert edge == above.end_time


def test_a_pod_that_is_not_bound_yet_has_no_root_and_an_error_is_marked() -> None:
    failed = attempt(1, ERROR, 1.0, PreFilter=0.001)
    failed.message = "plugin X failed"
    spans = traced([failed])
    assert "pod" not in spans
    assert spans["attempt 1"].status.description == "plugin X failed"


def test_an_attempt_without_a_result_is_not_traced() -> None:
    assert not traced([attempt(1, "", 1.0)])


def test_the_sampler_of_the_environment_decides_for_whole_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    assert not traced([attempt(1, SCHEDULED, 1.0, "n1", Filter=0.001)])


class Collector(BaseHTTPRequestHandler):
    received: list[tuple[str, ExportTraceServiceRequest]]

    def do_POST(self) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.append((self.path, request))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def collector() -> Iterator[HTTPServer]:
    Collector.received = []
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_traces_go_by_otlp_to_where_the_environment_says(
    collector: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    tracing = start_tracing({}, lambda _: None)
    tracing.observe(attempt(1, SCHEDULED, 1.0, "n1", Filter=0.001))
    tracing.close()
    ((path, request),) = Collector.received
    assert path == "/v1/traces"
    (resource,) = request.resource_spans
    names = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
    assert names["service.name"] == "tandem-scheduler"
    spans = [span.name for scope in resource.scope_spans for span in scope.spans]
    assert sorted(spans) == ["Binding", "Filter", "attempt 1", "pod"]


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scheduler.controller.report.spans", None)
    with pytest.raises(ConfigurationError, match=r"tandem-scheduler\[tracing\]"):
        start_tracing({}, lambda _: None)
