"""Promise: what the dashboard and the alerts ask for is on the page of a scheduler at work, and traces arrive."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from e2e import builders
from e2e.room import Room
from e2e.subject import Scheduler
from e2e.tandem import Tandem
from tests.manifests import queries

pytestmark = pytest.mark.tandem_only

MONITORING = Path(__file__).parent.parent / "manifests" / "overlays" / "monitoring"
# These begin with the first of what they count: nothing of the kind happens here.
BEGIN_LATER = {"tandem_kubelet_refusals_total", "tandem_config_reloads_total"}
# Only with leader election, which is off here: the expressions that leave standbys out hold without it, too.
WITH_A_LEASE = {"leader_election_master_status"}
MADE_BY_PROMETHEUS = {"up"}


def expressions() -> list[str]:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    alerts = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return asked + [rule["expr"] for group in alerts["spec"]["groups"] for rule in group["rules"]]


def test_every_query_of_the_dashboard_and_the_alerts_finds_its_series_on_the_page_of_a_scheduler_at_work(
    room: Room, scheduler: Scheduler
) -> None:
    room.add_cluster_object(builders.priority_class(room.name, 1000))
    room.add_nodes(builders.node("a", cpu="2"))
    room.add_pods(*(builders.pod(f"p{number}", room.name, cpu="1") for number in range(3)))
    room.wait_bound(2)
    room.add_pods(builders.pod("urgent", room.name, cpu="2", priorityClassName=room.name))
    room.wait_placed("urgent", "a")
    series = dict[str, set[str]]()
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", scheduler.get("/metrics")[1], re.MULTILINE):
        series.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    asked = expressions()
    assert len(asked) > 20
    for expression in asked:
        names = queries.names(expression) - MADE_BY_PROMETHEUS - BEGIN_LATER - WITH_A_LEASE
        assert names <= series.keys(), expression
        if names and not queries.names(expression) & BEGIN_LATER:
            offered = set().union(*(series[name] for name in names)) | queries.ADDED_BY_PROMETHEUS
            assert queries.labels(expression) <= offered, expression


class Collector(HTTPServer):
    """Takes traces by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Span] = []


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        scopes = [scope for resource in request.resource_spans for scope in resource.scope_spans]
        self.server.spans += [span for scope in scopes for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Silent."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_each_pod_is_one_trace_from_its_creation_to_its_binding(
    room: Room, new_tandem: Callable[..., Tandem], collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    with new_tandem(options=["--tracing"]):
        room.add_pods(builders.pod("early", room.name))
        room.wait_refused("early")
        room.add_nodes(builders.node("a"))
        room.wait_placed("early", "a")
        room.wait_events("early", "Scheduled")
    # It has been stopped, and what was left has been sent.
    trace = bytes.fromhex(room.pod("early")["metadata"]["uid"].replace("-", ""))
    spans = {span.name: span for span in collector.spans if span.trace_id == trace}
    assert {"pod", "attempt 1", "Filter", "Binding"} <= spans.keys()
    root = spans["pod"]
    assert not root.parent_span_id
    attempts = [span for name, span in spans.items() if name.startswith("attempt ")]
    assert len(attempts) >= 2
    assert all(attempt.parent_span_id == root.span_id for attempt in attempts)
    assert root.start_time_unix_nano <= min(attempt.start_time_unix_nano for attempt in attempts)
    assert root.end_time_unix_nano == max(attempt.end_time_unix_nano for attempt in attempts)
