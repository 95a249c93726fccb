"""OpenTelemetry traces, enabled by ``--tracing``; the ``OTEL_`` variables configure the export.

OpenTelemetry, an optional dependency, is imported only when enabled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from scheduler.engine.attempt import Attempt
from scheduler.errors import ConfigurationError, Fault

SERVICE_NAME: Final = "tandem-scheduler"

CreationOf = Callable[[str], str | None]
"""``namespace/name`` of a pod → its creationTimestamp; None if the pod is no longer known."""


class Tracing(Protocol):
    def observe(self, attempt: Attempt) -> None:
        """Records an attempt; call it right when the attempt ends."""
        ...

    def close(self) -> None:
        """Exports the remaining spans. Blocks for at most the exporter's time-out."""
        ...


def start_tracing(environment: Mapping[str, str], creation_of: CreationOf) -> Tracing:
    """The traces, whose exporter runs from now on. Raises ConfigurationError if the extra is not installed, or the
    ``OTEL_`` variables are invalid."""
    try:
        spans = importlib.import_module("scheduler.controller.report.spans")
    except ImportError as error:
        text = f"--tracing needs the extra: pip install 'tandem-scheduler[tracing]' ({error})"
        raise ConfigurationError([Fault("", text)]) from error
    try:
        return cast(Tracing, spans.exporting(environment, creation_of))
    except ValueError as error:
        raise ConfigurationError([Fault("", f"--tracing: {error}")]) from error
