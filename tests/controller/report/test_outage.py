"""What keeps every kind from being watched is reported once, and then at most once a minute."""

from __future__ import annotations

from typing import Any

from scheduler.controller.report.outage import Outage
from scheduler.errors import ApiError

UNREACHABLE = ApiError(0, "NoAnswer", "no answer from the API server: connection refused")


def test_an_outage_is_one_line_for_all_kinds_and_then_one_a_minute(log_lines: list[dict[str, Any]]) -> None:
    now = [0.0]
    outage = Outage(lambda: now[0])
    for second in range(130):
        now[0] = float(second)
        for kind in ("nodes", "pods", "services"):
            outage.report("API server can't be watched, trying again", kind, UNREACHABLE)
    assert [line.get("kinds") for line in log_lines] == [
        None,
        ["nodes", "pods", "services"],
        ["nodes", "pods", "services"],
    ]
    assert log_lines[0]["error"] == str(UNREACHABLE)


def test_different_causes_are_different_lines(log_lines: list[dict[str, Any]]) -> None:
    outage = Outage(lambda: 0.0)
    outage.report("not authenticated: list nodes", "nodes", ApiError(401, "Unauthorized", "Unauthorized"))
    outage.report("missing right: list pods", "pods", ApiError(403, "Forbidden", "no"))
    assert [line["event"] for line in log_lines] == ["not authenticated: list nodes", "missing right: list pods"]


def test_its_end_is_said_when_the_last_kind_is_listed_and_a_new_one_is_reported_at_once(
    log_lines: list[dict[str, Any]],
) -> None:
    outage = Outage(lambda: 0.0)
    for kind in ("nodes", "pods"):
        outage.report("x", kind, UNREACHABLE)
    outage.recovered("nodes")
    assert [line["event"] for line in log_lines] == ["x"]
    outage.recovered("pods")
    outage.recovered("pods")
    outage.report("x", "pods", UNREACHABLE)
    assert [line["event"] for line in log_lines] == ["x", "API server answers again", "x"]


def test_a_silent_watch_is_its_own_kind_s_trouble_alone() -> None:
    silence = ApiError(0, "Timeout", "the API server did not answer in time")
    assert not Outage.concerns(silence, is_watch=True)
    assert Outage.concerns(silence, is_watch=False)
    assert not Outage.concerns(ApiError(500, "InternalError", "x"), is_watch=False)
