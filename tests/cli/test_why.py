"""What ``tandem why`` prints of a pod's page."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from scheduler.cli.why import print_why


def printed(page: dict[str, Any]) -> str:
    """In one line."""
    output = StringIO()
    print_why(page, Console(file=output, width=200))
    return " ".join(output.getvalue().split())


def test_a_pod_that_is_being_deleted_and_victims_that_are_still_there_are_shown_with_what_keeps_them() -> None:
    kept = {"deletedAt": "2027-01-15T08:00:00Z", "finalizers": ["example.com/stay"]}
    page: dict[str, Any] = {"pod": "default/high", "node": "", "nominatedNode": "n1", "leaving": kept, "queue": None}
    page["victimsLeft"] = [{"pod": "default/low"} | kept, {"pod": "default/next"}]
    text = printed(page)
    until = "is being deleted, with time until 2027-01-15T08:00:00Z, kept by example.com/stay"
    assert f"It {until}, and gets no node any more." in text
    assert f"still on n1: 2 default/low {until} default/next is not deleted yet" in text
