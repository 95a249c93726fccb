"""What is written about attempts: the journal and the log."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import structlog

from scheduler.controller.report.journal import Journal
from scheduler.controller.report.logs import AttemptLog, configure_logs
from scheduler.controller.settings import LogSettings
from scheduler.engine.attempt import ERROR, SCHEDULED, UNSCHEDULABLE, Attempt
from scheduler.errors import ConfigurationError
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.post_filter import NominationMode
from scheduler.messages.status import unresolvable, unschedulable


def refused() -> Attempt:
    diagnosis = Diagnosis.of_rows(
        {
            0: unschedulable("Insufficient cpu").by("NodeResourcesFit"),
            1: unschedulable("Insufficient cpu").by("NodeResourcesFit"),
            2: unresolvable("node(s) had untolerated taint(s)").by("TaintToleration"),
        },
        3,
    )
    attempt = Attempt("default/a", "1", "tandem", 3, 17, result=UNSCHEDULABLE, diagnosis=diagnosis)
    attempt.message = "0/3 nodes are available"
    attempt.nomination_mode, attempt.nominated_node = NominationMode.SET, "n1"
    attempt.victims = ("default/v",)
    return attempt


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_decision_is_a_line_in_order(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.write(Attempt("default/b", "2", "tandem", 1, 16, result=SCHEDULED, node="n2"))
    journal.write(refused())
    journal.write(Attempt("default/c", "3", "tandem", 1, 18))
    assert path.read_bytes() == b""
    journal.flush()
    journal.close()
    assert lines_of(path) == [
        {"time": 16, "pod": "default/b", "uid": "2", "attempt": 1, "result": "scheduled", "node": "n2"},
        {
            "time": 17,
            "pod": "default/a",
            "uid": "1",
            "attempt": 3,
            "result": "unschedulable",
            "message": "0/3 nodes are available",
            "refusals": {"NodeResourcesFit": 2, "TaintToleration": 1},
            "nominatedNode": "n1",
            "victims": ["default/v"],
        },
    ]
    journal.write(refused())
    journal.close()
    assert len(lines_of(path)) == 3


def test_a_journal_is_continued(tmp_path: Path) -> None:
    for _ in range(2):
        journal = Journal(tmp_path / "journal")
        journal.write(refused())
        journal.close()
    assert len(lines_of(tmp_path / "journal")) == 2


def test_a_journal_that_can_not_be_written_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be written"):
        Journal(tmp_path / "nowhere" / "journal")


def test_the_log_has_one_wide_line_for_an_attempt_where_the_verbosity_asks_for_it(
    log_lines: list[dict[str, Any]],
) -> None:
    AttemptLog(1).write(refused())
    assert log_lines == []
    AttemptLog(2).write(refused())
    (line,) = log_lines
    assert line["event"] == "Unable to schedule pod; no fit; waiting"
    assert line["pod"] == "default/a"
    assert line["victims"] == ["default/v"]
    assert line["feasibleNodes"] == 0


def test_errors_are_logged_at_any_verbosity(log_lines: list[dict[str, Any]]) -> None:
    AttemptLog(0).write(Attempt("default/a", "1", "tandem", 1, 0, result=ERROR, message="plugin X failed"))
    (line,) = log_lines
    assert (line["log_level"], line["message"]) == ("error", "plugin X failed")


@pytest.mark.parametrize("format_", ["json", "text"])
def test_logs_take_the_form_that_is_asked_for(format_: str) -> None:
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    try:
        configure_logs(LogSettings(format_, 2), stream)
        structlog.get_logger().info("hello", pod="a/b")
        structlog.get_logger().debug("hidden")
    finally:
        structlog.configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)
    text = stream.getvalue()
    assert "hidden" not in text
    if format_ == "json":
        assert {"event": "hello", "pod": "a/b", "level": "info"}.items() <= json.loads(text).items()
    else:
        assert "hello" in text
        assert "pod=a/b" in text
