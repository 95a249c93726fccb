"""``/metrics/slis``: how often each health check was asked, and what it said (Kubernetes' component SLIs)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry

from scheduler.controller.report.instruments import Counter, Gauge, Instruments

Check = Callable[[], str]
SUCCESS: Final = "success"
ERROR: Final = "error"


class HealthIndicators:
    """Counts the results of checks that ``counted`` has wrapped."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._states: dict[tuple[str, ...], float] = {}
        made = self._instruments = Instruments()
        text = "This metric records the result of a single healthcheck."
        made.add(Gauge("kubernetes_healthcheck", text, ("name", "type"), self._states.items))
        text = "This metric records the results of all healthcheck."
        self._results: Counter = made.counter("kubernetes_healthchecks", text, ("name", "type", "status"))
        self.registry.register(made)

    def counted(self, kind: str, checks: Mapping[str, Check]) -> dict[str, Check]:
        """The same checks, each counted when it is asked. ``kind``: healthz, livez or readyz."""
        return {name: partial(self._ask, name, kind, check) for name, check in checks.items()}

    def reset(self) -> None:
        self._states.clear()
        self._instruments.reset()

    def _ask(self, name: str, kind: str, check: Check) -> str:
        problem = check()
        self._states[name, kind] = 0.0 if problem else 1.0
        self._results.child(name, kind, ERROR if problem else SUCCESS).add()
        return problem
