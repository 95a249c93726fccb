"""What people read in a terminal is at most 80 columns wide."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest


def in_a_terminal(*arguments: str) -> list[str]:
    """The lines that a command prints on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "scheduler", *arguments]
    environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    process.wait(60)
    os.close(ours)
    return [line.rstrip() for line in shown.decode().splitlines()]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["why", "--help"],
        ["queue", "--help"],
        ["why", "x", "--server", "http://127.0.0.1:1"],
        ["why", "a/b", "-n", "c"],
        ["why", "x", "--server", "nonsense"],
        ["queue", "--kubeconfig", "/absent"],
        ["check-config", "/absent"],
        ["run", "--feature-gates=SchedulerQueueingHint=true,GangScheduling=true"],
    ],
)
def test_no_line_is_wider_than_80_columns(arguments: list[str]) -> None:
    lines = in_a_terminal(*arguments)
    assert lines
    assert [line for line in lines if len(line) > 80] == []


def test_the_exit_codes_are_documented_where_people_look() -> None:
    assert "Exit codes: 0 done" in " ".join(" ".join(in_a_terminal("--help")).split())
