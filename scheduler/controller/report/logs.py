"""Logs: JSON in a cluster, readable on a terminal; one wide line for each attempt.

Verbosity follows kube-scheduler's ``-v``: 0–1 errors, warnings and milestones; 2 adds a line for each attempt; 4 and
more everything. Lines of libraries (kopf, aiohttp, kubernetes_asyncio) have the same format, from warnings up.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO, cast

import msgspec
import structlog

from scheduler.controller.report.log_settings import LogSettings
from scheduler.controller.report.log_stream import TurnBuffer
from scheduler.engine.attempt import ERROR, SCHEDULED, Attempt
from scheduler.objects.timestamps import format_seconds
from scheduler.preemption.evaluation import PreemptionEvidence

ATTEMPT_VERBOSITY = 2
DEBUG_VERBOSITY = 4
_SKIPPING = "Skipping extender as it returned error and has ignorable flag set"
SKIPPED = {
    "filter": _SKIPPING,
    "preempt": _SKIPPING,
    "bind": _SKIPPING,
    "prioritize": "Extender gave no scores",
}
"""The message by failed verb where an attempt went on without an extender."""
TRIED_PLAINLY = "Dry runs of many nodes at once failed; nodes were tried one by one"
NOISY = ("kopf", "aiohttp", "kubernetes_asyncio", "asyncio")


def configure_logs(settings: LogSettings, stream: TextIO = sys.stderr) -> None:
    """Configures structlog and the standard library's root logger. Call it once, before anything else."""
    as_json = settings.format == "json" or (settings.format == "auto" and not stream.isatty())
    buffer = TurnBuffer(stream)
    lines: Any = buffer
    level = logging.DEBUG if settings.verbosity >= DEBUG_VERBOSITY else logging.INFO
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _Timestamps(),
    ]
    ending: list[Any]
    if as_json:
        # Without local variables, which may hold tokens and the like.
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        ending = [
            structlog.processors.ExceptionRenderer(tracebacks),
            structlog.processors.JSONRenderer(serializer=_json),
        ]
    else:
        plain = structlog.dev.plain_traceback
        ending = [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Lines(buffer, is_json=as_json),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(lines)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending]
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    # kopf warns that it may not install signal handlers, which is intended.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    handler.addFilter(_says_more_than_we_do)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING if settings.verbosity < DEBUG_VERBOSITY else logging.INFO)


def _says_more_than_we_do(record: logging.LogRecord) -> bool:
    """Whether a library's line is logged. kopf reports each try of each request, with the repr of its error; our own
    reflectors log once a minute that the API server can't be reached."""
    return not (record.name.startswith("kopf") and str(record.msg).startswith("Request attempt"))


class _Timestamps:
    """RFC 3339 times with microseconds. The part up to the second is cached, since each attempt logs a line."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["timestamp"] = self.present()
        return event

    def present(self) -> str:
        """The present time as text."""
        now = time.time_ns()
        second, rest = divmod(now, 1_000_000_000)
        if second != self._second:
            self._second = second
            self._text = format_seconds(now).removesuffix("Z")
        return f"{self._text}.{rest // 1000:06}Z"


def _json(event: Any, **_options: Any) -> str:
    """Encodes a line with msgspec, in a tenth of the standard library's time; unknown types are shown by their repr."""
    try:
        return msgspec.json.encode(event, enc_hook=repr).decode()
    except UnicodeEncodeError:
        # File names and paths of requests may be no UTF-8: here they are escaped.
        return json.dumps(msgspec.to_builtins(event, enc_hook=repr))


class _AttemptLine(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """An attempt as a line of the log, with what the processors add at its end. Empty fields are left out."""

    pod: str = ""
    uid: str = ""
    profile: str = ""
    attempt: int = 0
    result: str = ""
    node: str = ""
    message: str = ""
    nodes: int = 0
    evaluated_nodes: int = 0
    feasible_nodes: int
    nominated_node: str = ""
    victims: list[str] = msgspec.field(default_factory=list)
    plugins: list[str] = msgspec.field(default_factory=list)
    microseconds: dict[str, int] = msgspec.field(default_factory=dict)
    shared: bool = False
    event: str = ""
    level: str = ""
    timestamp: str = ""


def _line_of(attempt: Attempt, event: str = "", level: str = "", timestamp: str = "") -> _AttemptLine:
    return _AttemptLine(
        pod=attempt.pod,
        uid=attempt.uid,
        profile=attempt.scheduler_name,
        attempt=attempt.number,
        result=attempt.result,
        node=attempt.node,
        message=attempt.message,
        nodes=attempt.total_nodes,
        evaluated_nodes=attempt.evaluated_nodes,
        feasible_nodes=attempt.feasible_nodes,
        nominated_node=attempt.nominated_node,
        victims=list(attempt.victims),
        plugins=list(attempt.rejectors),
        microseconds={point: round(seconds * 1e6) for point, seconds in attempt.durations.items()},
        shared=attempt.was_class_known,
        event=event,
        level=level,
        timestamp=timestamp,
    )


AttemptWriter = Callable[[str, Attempt], object]
"""Writes a line of the level info with this message about an attempt."""


def _json_lines() -> AttemptWriter | None:
    """Writes lines as the configured processors do, in a fraction of their time, which each pod costs; None where
    lines are not JSON, or not written by ``configure_logs``."""
    settings = structlog.get_config()
    if not isinstance(settings["logger_factory"], _Lines) or not settings["logger_factory"].is_json:
        return None
    write, stamps, encode = settings["logger_factory"].stream.write, _Timestamps(), msgspec.json.Encoder().encode

    def info(event: str, attempt: Attempt) -> None:
        line = _line_of(attempt, event, "info", stamps.present())
        write(encode(line).decode() + "\n")

    return info


class _Lines(structlog.WriteLoggerFactory):
    """Makes loggers that write lines to ``stream``."""

    def __init__(self, stream: TurnBuffer, *, is_json: bool) -> None:
        super().__init__(cast(TextIO, stream))
        self.stream = stream
        self.is_json = is_json


class AttemptLog:
    """Logs each attempt as one line if the verbosity includes it; errors always. Create it after ``configure_logs``."""

    def __init__(self, verbosity: int) -> None:
        self._is_on = verbosity >= ATTEMPT_VERBOSITY
        self._log = structlog.get_logger().bind()
        self._info: AttemptWriter = _json_lines() or self._say

    def write(self, attempt: Attempt) -> None:
        for fault in attempt.extender_faults:
            if fault.is_skipped:
                self._log.warning(SKIPPED[fault.verb], pod=attempt.pod, extender=fault.extender, error=fault.message)
        if isinstance(attempt.preemption, PreemptionEvidence) and attempt.preemption.faults:
            self._log.warning(TRIED_PLAINLY, pod=attempt.pod, errors=list(attempt.preemption.faults))
        if attempt.result == ERROR:
            self._log.error("Error scheduling pod; retrying", **attempt_fields(attempt))
        elif not self._is_on:
            return
        elif attempt.result == SCHEDULED:
            self._info("Successfully bound pod to node", attempt)
        elif attempt.result:
            self._info("Unable to schedule pod; no fit; waiting", attempt)

    def _say(self, event: str, attempt: Attempt) -> None:
        self._log.info(event, **attempt_fields(attempt))


def attempt_fields(attempt: Attempt) -> dict[str, Any]:
    """The attempt as flat fields, without empty ones."""
    fields: dict[str, Any] = msgspec.to_builtins(_line_of(attempt))
    return fields
