"""The decision journal: every decision in order, one JSON line each, for comparing runs and for audits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from scheduler.controller.report.journal_file import JournalFile
from scheduler.engine.attempt import Attempt
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.post_filter import NominationMode


class Journal:
    """Appends to ``path``. ``flush`` when a slice of work ends; what the disk does not take is counted, and no more."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigurationError if the file can't be written."""
        self._encode = msgspec.json.Encoder().encode
        self._buffer = bytearray()
        self._lines = 0
        self._file = JournalFile(path)

    @property
    def dropped_lines(self) -> int:
        return self._file.dropped_lines

    def write(self, attempt: Attempt) -> None:
        if attempt.result:
            self._buffer += self._encode(decision_line(attempt))
            self._buffer += b"\n"
            self._lines += 1

    def flush(self) -> None:
        if self._lines:
            self._file.append(bytes(self._buffer), self._lines)
            self._buffer.clear()
            self._lines = 0

    def close(self) -> None:
        """Waits a few seconds for the disk."""
        self.flush()
        self._file.close()


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
