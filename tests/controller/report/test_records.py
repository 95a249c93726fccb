"""Records of attempts: the journal and the log."""

from __future__ import annotations

import io
import json
import logging
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import structlog

from scheduler.controller.report.journal import Journal
from scheduler.controller.report.journal_file import JournalFile
from scheduler.controller.report.log_settings import LogSettings
from scheduler.controller.report.logs import AttemptLog, attempt_fields, configure_logs
from scheduler.engine.attempt import ERROR, SCHEDULED, UNSCHEDULABLE, Attempt
from scheduler.errors import ConfigurationError
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.post_filter import NominationMode
from scheduler.messages.status import unresolvable, unschedulable
from scheduler.preemption.evaluation import PreemptionEvidence
from tests.limits import WAIT_SECONDS


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


def test_the_quick_line_of_an_attempt_is_what_the_processors_would_write() -> None:
    placed = Attempt("default/b", "2", "tandem", 1, 0, result=SCHEDULED, node="n1", total_nodes=3, feasible_nodes=2)
    placed.durations = {"Filter": 0.000012, "Score": 0.0}
    placed.was_class_known = True
    for attempt in (refused(), placed, Attempt("", "", "", 0, 0, result=UNSCHEDULABLE)):
        stream = io.StringIO()
        try:
            configure_logs(LogSettings("json", 2), stream)
            AttemptLog(2).write(attempt)
            event = json.loads(stream.getvalue())["event"]
            structlog.get_logger().info(event, **attempt_fields(attempt))
        finally:
            structlog.reset_defaults()
        quick, plain = stream.getvalue().splitlines()
        assert list(json.loads(quick)) == list(json.loads(plain))
        assert json.loads(quick) | {"timestamp": ""} == json.loads(plain) | {"timestamp": ""}


def test_the_fields_of_an_attempt_leave_out_what_is_empty() -> None:
    placed = Attempt("default/b", "2", "tandem", 1, 0, result=SCHEDULED, node="n1", total_nodes=3, feasible_nodes=2)
    placed.evaluated_nodes, placed.durations = 3, {"Filter": 0.000012}
    assert attempt_fields(placed) == {
        "pod": "default/b",
        "uid": "2",
        "profile": "tandem",
        "attempt": 1,
        "result": SCHEDULED,
        "node": "n1",
        "nodes": 3,
        "evaluatedNodes": 3,
        "feasibleNodes": 2,
        "microseconds": {"Filter": 12},
    }


def test_errors_are_logged_at_any_verbosity(log_lines: list[dict[str, Any]]) -> None:
    AttemptLog(0).write(Attempt("default/a", "1", "tandem", 1, 0, result=ERROR, message="plugin X failed"))
    (line,) = log_lines
    assert (line["log_level"], line["message"]) == ("error", "plugin X failed")


def test_a_failed_dry_run_of_many_nodes_is_logged_at_any_verbosity(log_lines: list[dict[str, Any]]) -> None:
    attempt = refused()
    attempt.preemption = PreemptionEvidence(eligible=True, faults=("ValueError: no tally in NoTally.tallies",))
    AttemptLog(0).write(attempt)
    (line,) = log_lines
    assert (line["log_level"], line["pod"]) == ("warning", "default/a")
    assert line["errors"] == ["ValueError: no tally in NoTally.tallies"]


@pytest.mark.parametrize("format_", ["json", "text"])
def test_logs_take_the_form_that_is_asked_for(format_: str) -> None:
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    try:
        configure_logs(LogSettings(format_, 2), stream)
        structlog.get_logger().info("hello", pod="a/b")
        structlog.get_logger().info("not UTF-8", path="/\udcff")
        structlog.get_logger().debug("hidden")
    finally:
        structlog.configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)
    text = stream.getvalue()
    assert "hidden" not in text
    if format_ == "json":
        hello, odd = (json.loads(line) for line in text.splitlines())
        assert {"event": "hello", "pod": "a/b", "level": "info"}.items() <= hello.items()
        assert odd["path"] == "/\udcff"
        assert text.isascii()
    else:
        assert "hello" in text
        assert "pod=a/b" in text


def test_the_journal_is_for_its_owner_alone_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "open").write_text("")
    (tmp_path / "open").chmod(0o644)
    for name in ("open", "new"):
        Journal(tmp_path / name).close()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(ConfigurationError, match=f"{name} can't be written: is not a regular file"):
            Journal(tmp_path / name)
    assert not (tmp_path / "target").exists()


def test_a_disk_that_stands_still_costs_lines_that_are_counted_and_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands, goes, write = threading.Event(), threading.Event(), os.write

    def slow_write(descriptor: int, data: bytes) -> int:
        stands.set()
        assert goes.wait(WAIT_SECONDS)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", slow_write)
    file = JournalFile(tmp_path / "journal", max_waiting_bytes=1_000)
    file.append(b"first\n", 1)
    assert stands.wait(WAIT_SECONDS)
    for _ in range(100):
        file.append(b"x" * 99 + b"\n", 1)
    assert file.dropped_lines == 90
    goes.set()
    file.close(WAIT_SECONDS)
    assert (tmp_path / "journal").read_bytes().count(b"\n") == 11


def test_a_disk_that_fails_costs_lines_that_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stands, goes, write = threading.Event(), threading.Event(), os.write

    def failing_write(descriptor: int, data: bytes) -> int:
        if not goes.is_set():
            stands.set()
            assert goes.wait(WAIT_SECONDS)
            return write(descriptor, data[:8])
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "write", failing_write)
    file = JournalFile(tmp_path / "journal")
    file.append(b"first\nsecond\nthird\n", 3)
    assert stands.wait(WAIT_SECONDS)
    for _ in range(100):
        file.append(b"later\n", 1)
    goes.set()
    file.close(WAIT_SECONDS)
    assert file.dropped_lines == 102
    assert (tmp_path / "journal").read_bytes() == b"first\nse"


@pytest.mark.parametrize("format", ["json", "text"])
def test_a_traceback_shows_no_local_variables(format: str) -> None:
    stream = io.StringIO()
    configure_logs(LogSettings(format), stream)

    def fail(token: str) -> None:
        raise ValueError("broken")

    try:
        for log in (structlog.get_logger().exception, logging.getLogger("aiohttp.server").exception):
            try:
                fail("secret-" + "token")
            except ValueError:
                log("Failed")
    finally:
        structlog.reset_defaults()
    assert stream.getvalue().count("Failed") == 2
    assert "broken" in stream.getvalue()
    assert "secret-token" not in stream.getvalue()
