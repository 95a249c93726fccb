"""The decision journal: all decisions in order, one JSON line each, for comparing runs and for audits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from scheduler.controller.report.groups import group_line
from scheduler.controller.report.journal_file import JournalFile
from scheduler.engine.attempt import Attempt
from scheduler.engine.group_attempt import GroupAttempt
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.post_filter import NominationMode


class Journal:
    """Appends to ``path``. Call ``flush`` at the end of a slice of work; lines that can't be written are counted."""

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

    def write_group(self, attempt: GroupAttempt) -> None:
        self._buffer += self._encode(group_line(attempt))
        self._buffer += b"\n"
        self._lines += 1

    def flush(self) -> None:
        if self._lines:
            self._file.append(bytes(self._buffer), self._lines)
            self._buffer.clear()
            self._lines = 0

    def close(self) -> None:
        """Closes the file, after waiting a few seconds for the disk."""
        self.flush()
        self._file.close()


def decision_line(attempt: Attempt) -> dict[str, Any]:
    """The journal's entry. ``time`` is nanoseconds since 1970; a placement has a ``node``, any other attempt
    ``refusals``, the number of nodes per plugin."""
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
    """The number of nodes that each plugin was first to refuse; 0 for a plugin that refused the pod as a whole."""
    counts: Counter[str] = Counter()
    if diagnosis.refusals:
        used = Counter(diagnosis.codes.tolist())
        for number, refusal in enumerate(diagnosis.refusals, start=1):
            if used[number]:
                counts[refusal.plugin] += used[number]
    if diagnosis.pre_filter is not None:
        counts.setdefault(diagnosis.pre_filter.plugin, 0)
    return dict(sorted(counts.items()))
