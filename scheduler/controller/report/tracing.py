"""OpenTelemetry traces, where ``--tracing`` asks for them; where they go is said by the ``OTEL_`` variables.

OpenTelemetry is imported here only when it is wanted: it is an extra.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from scheduler.engine.attempt import Attempt
from scheduler.errors import ConfigurationError, Fault

SERVICE_NAME: Final = "tandem-scheduler"

CreationOf = Callable[[str], str | None]
"""``namespace/name`` of a pod → its creationTimestamp; None where the pod is no longer known."""


class Tracing(Protocol):
    def observe(self, attempt: Attempt) -> None:
        """Call right when the attempt ends."""
        ...

    def close(self) -> None:
        """Export what is left. Blocks, for at most the exporter's own time-out."""
        ...


def start_tracing(environment: Mapping[str, str], creation_of: CreationOf) -> Tracing:
    """Raises ConfigurationError where the extra is not installed, or the ``OTEL_`` variables can't be used."""
    try:
        spans = importlib.import_module("scheduler.controller.report.spans")
    except ImportError as error:
        text = f"--tracing needs the extra: pip install 'tandem-scheduler[tracing]' ({error})"
        raise ConfigurationError([Fault("", text)]) from error
    try:
        return cast(Tracing, spans.exporting(environment, creation_of))
    except ValueError as error:
        raise ConfigurationError([Fault("", f"--tracing: {error}")]) from error
