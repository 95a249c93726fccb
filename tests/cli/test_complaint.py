"""What people read in a terminal is at most 80 columns wide."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from scheduler.cli.commands import COMMANDS
from scheduler.cli.help import EXIT_CODES

MARK = "== "
PROGRAM = f"""
import json, sys
from scheduler.cli.main import main
for words in json.loads(sys.argv[1]):
    main(words)
    print("{MARK}", flush=True)
"""


def in_a_terminal(*lines_of_words: list[str]) -> list[list[str]]:
    """The lines that each of these commands prints on a terminal of 80 columns, in one process."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, json.dumps(lines_of_words)]
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
    parts = shown.decode().replace("\r", "").split(f"{MARK}\n")
    assert len(parts) == len(lines_of_words) + 1, parts
    return [[line.rstrip() for line in part.splitlines()] for part in parts[:-1]]


UNREACHABLE = ("--server", "http://127.0.0.1:1")
WORDS: dict[str, list[str]] = {
    "run": ["--leader-elect=maybe"],
    "check-config": ["/absent"],
    "version": ["--no-such-flag"],
    "why": ["x", *UNREACHABLE],
    "what-if": ["--drain", "n", *UNREACHABLE],
    "replay": ["/absent"],
    "snapshot": ["/absent/file", *UNREACHABLE],
    "nodes": ["x", *UNREACHABLE],
    "ui": ["--kubeconfig", "/absent"],
    "demo": ["--no-such-flag"],
    "completion": ["no-such-shell"],
}
"""Of each command, words with which it ends with an error; of others ``UNREACHABLE``."""
OTHERS = (
    ["no-such-command-at-all-with-a-name-that-is-rather-long-for-what-it-is", "--help"],
    ["why", "a/b", "-n", "c"],
    ["why", "x", "--server", "nonsense"],
    ["queue", "--kubeconfig", "/absent"],
    ["run", "--feature-gates=SchedulerQueueingHint=true,GangScheduling=true"],
)


def test_no_line_of_any_command_s_help_or_errors_is_wider_than_80_columns() -> None:
    names = [command.name for command in COMMANDS]
    unknown = ["--no-such-flag", "one", "two", "three", "four", "five", "six"]
    refused = [[name, *words] for name in names for words in (WORDS.get(name, list(UNREACHABLE)), unknown)]
    asked = [["--help"], *([name, "--help"] for name in names), *OTHERS, *refused]
    for words, lines in zip(asked, in_a_terminal(*asked), strict=True):
        assert lines, words
        heads = [line for line in lines if line.startswith("╭")]
        assert all(line.endswith((" ─╮", "──╮")) for line in heads), "a title is cut off"
        assert [line for line in lines if len(line) > 80] == [], words
        if words in refused:
            assert lines[0].startswith("Error: "), (words, lines)


def test_the_exit_codes_are_documented_where_people_look() -> None:
    (lines,) = in_a_terminal(["--help"])
    shown = " ".join(" ".join(lines).split())
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    assert "Exit codes: 0 done" in shown
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in shown
        assert f"| {code} | {meaning} |" in page
