"""Metrics that every Kubernetes component has, under the names that dashboards and alerts expect of kube-scheduler."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Final

from scheduler.config.feature_gates import FeatureGates
from scheduler.config.gate_table import GATES, Stage
from scheduler.controller.report.instruments import CounterChild, Gauge, HistogramChild, Instruments

REQUEST_BUCKETS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
NO_ANSWER: Final = "<error>"
"""The label ``code`` of a request without an answer."""


class RestClientMetrics:
    """The requests to the API server. ``observe`` is called on the event loop's thread."""

    def __init__(self, made: Instruments) -> None:
        self._requests = made.counter(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
        )
        self._durations = made.histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            REQUEST_BUCKETS,
            ("verb", "host"),
        )
        self._children: dict[tuple[int, str, str], tuple[CounterChild, HistogramChild]] = {}
        """By status, method and host, looked up once."""

    def observe(self, method: str, host: str, status: int, seconds: float) -> None:
        """Count a request. ``status`` 0: no answer. ``seconds``: until the head of the answer had come."""
        key = (status, method, host)
        children = self._children.get(key)
        if children is None:
            count = self._requests.child(str(status) if status else NO_ANSWER, method, host)
            children = self._children[key] = (count, self._durations.child(method, host))
        children[0].value += 1.0
        children[1].observe(seconds)


def add_component_metrics(
    made: Instruments,
    *,
    version: str,
    kubernetes: str,
    gates: FeatureGates,
    lease: str,
    leads: Callable[[], bool] | None,
) -> None:
    """Adds the build, the feature gates and, with ``leads``, whether this replica leads; ``lease`` is its name."""
    build: Mapping[tuple[str, ...], float] = {(version, kubernetes, platform.python_version(), platform.machine()): 1.0}
    made.add(
        Gauge(
            "tandem_build_info",
            "The version of this scheduler, and the kube-scheduler that it decides as. Always 1.",
            ("version", "kubernetes", "python", "platform"),
            build.items,
        )
    )
    features = {
        (name, "" if gate.stage is Stage.STABLE else gate.stage.value): float(gates.enabled(name))
        for name, gate in GATES.items()
    }
    text = "This metric records the data about the stage and enablement of a k8s feature."
    made.add(Gauge("kubernetes_feature_enabled", text, ("name", "stage"), features.items))
    if leads is not None:
        text = (
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master."
        )
        made.add(Gauge("leader_election_master_status", text, ("name",), lambda: (((lease,), float(leads())),)))
