"""Logs: JSON in a cluster, readable on a terminal; one wide line for each attempt.

Verbosity follows kube-scheduler's ``-v``: 0–1 errors, warnings and milestones; 2 adds a line for each attempt; 4 and
more everything. Lines of libraries (kopf, aiohttp, kubernetes_asyncio) take the same form, from warnings up.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import structlog

from scheduler.controller.settings import LogSettings
from scheduler.engine.attempt import ERROR, SCHEDULED, Attempt

ATTEMPT_VERBOSITY = 2
DEBUG_VERBOSITY = 4
NOISY = ("kopf", "aiohttp", "kubernetes_asyncio", "asyncio")

log = structlog.get_logger()


def configure_logs(settings: LogSettings, stream: TextIO = sys.stderr) -> None:
    """Set up structlog and the standard library's root logger. Call once, first of all."""
    as_json = settings.format == "json" or (settings.format == "auto" and not stream.isatty())
    level = logging.DEBUG if settings.verbosity >= DEBUG_VERBOSITY else logging.INFO
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    ending: list[Any]
    if as_json:
        ending = [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    else:
        ending = [structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
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
    # kopf regrets that it may not take the signals: that is as it should be.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING if settings.verbosity < DEBUG_VERBOSITY else logging.INFO)


class AttemptLog:
    """Writes each attempt as one line, where the verbosity asks for it; errors always."""

    def __init__(self, verbosity: int) -> None:
        self._is_on = verbosity >= ATTEMPT_VERBOSITY

    def write(self, attempt: Attempt) -> None:
        if attempt.result == ERROR:
            log.error("Error scheduling pod; retrying", **attempt_fields(attempt))
        elif not self._is_on:
            return
        elif attempt.result == SCHEDULED:
            log.info("Successfully bound pod to node", **attempt_fields(attempt))
        elif attempt.result:
            log.info("Unable to schedule pod; no fit; waiting", **attempt_fields(attempt))


def attempt_fields(attempt: Attempt) -> dict[str, Any]:
    """The attempt as flat fields; what is empty is left out."""
    fields: dict[str, Any] = {
        "pod": attempt.pod,
        "uid": attempt.uid,
        "profile": attempt.scheduler_name,
        "attempt": attempt.number,
        "result": attempt.result,
        "node": attempt.node,
        "message": attempt.message,
        "nodes": attempt.total_nodes,
        "evaluatedNodes": attempt.evaluated_nodes,
        "feasibleNodes": attempt.feasible_nodes,
        "nominatedNode": attempt.nominated_node,
        "victims": list(attempt.victims),
        "plugins": list(attempt.rejectors),
        "microseconds": {point: round(seconds * 1e6) for point, seconds in attempt.durations.items()},
        "shared": attempt.was_class_known,
    }
    return {name: value for name, value in fields.items() if value or name == "feasibleNodes"}
