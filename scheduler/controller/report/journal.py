"""The decision journal: every decision in order, one JSON line each, for comparing runs and for audits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import IO, Any

import msgspec
import structlog

from scheduler.engine.attempt import Attempt
from scheduler.errors import ConfigurationError, Fault
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.post_filter import NominationMode

log = structlog.get_logger()


class Journal:
    """Appends to ``path``. ``flush`` when a slice of work ends; a disk that fails ends the journal, nothing else."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigurationError if the file can't be written."""
        self._encode = msgspec.json.Encoder().encode
        self._buffer = bytearray()
        self._file: IO[bytes] | None = None
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise ConfigurationError((Fault("journal", f"{path} can't be written: {error.strerror}"),)) from error

    def write(self, attempt: Attempt) -> None:
        if self._file is not None and attempt.result:
            self._buffer += self._encode(decision_line(attempt))
            self._buffer += b"\n"

    def flush(self) -> None:
        if not self._buffer or self._file is None:
            return
        try:
            self._file.write(self._buffer)
        except OSError as error:
            log.error("Journal can't be written any more", error=str(error))
            self._file.close()
            self._file = None
        self._buffer.clear()

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None


def decision_line(attempt: Attempt) -> dict[str, Any]:
    """``time`` is nanoseconds since 1970. ``node`` for a placement; ``refusals`` counts nodes per plugin otherwise."""
    line: dict[str, Any] = {
        "time": attempt.started_wall,
        "pod": attempt.pod,
        "uid": attempt.uid,
        "attempt": attempt.number,
        "result": attempt.result,
    }
    if attempt.node:
        line["node"] = attempt.node
    if attempt.message:
        line["message"] = attempt.message
    if attempt.diagnosis is not None:
        line["refusals"] = refusals_by_plugin(attempt.diagnosis)
    if attempt.nomination_mode is not NominationMode.KEEP:
        line["nominatedNode"] = attempt.nominated_node
    if attempt.victims:
        line["victims"] = list(attempt.victims)
    return line


def refusals_by_plugin(diagnosis: Diagnosis) -> dict[str, int]:
    """How many nodes each plugin refused first; a plugin that refused the pod as a whole counts 0."""
    counts: Counter[str] = Counter()
    if diagnosis.refusals:
        used = Counter(diagnosis.codes.tolist())
        for number, refusal in enumerate(diagnosis.refusals, start=1):
            if used[number]:
                counts[refusal.plugin] += used[number]
    if diagnosis.pre_filter is not None:
        counts.setdefault(diagnosis.pre_filter.plugin, 0)
    return dict(sorted(counts.items()))
