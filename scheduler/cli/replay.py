"""``tandem replay``: decides a recording again, and proves that every decision is the same, or shows the first that
is not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from rich.console import Console
from rich.markup import escape

from scheduler.cli.anonymise import write_anonymous
from scheduler.cli.asking import OfRecording, Showing
from scheduler.cli.compare import compare
from scheduler.cli.complaint import complain
from scheduler.cli.options import argument, option
from scheduler.cli.prepare import read_configuration
from scheduler.cli.recorded import Maker, Stretch, classes_of, stretches, until_of, why_not_provable
from scheduler.cli.tables import terminal
from scheduler.messages.now import Now

SAME, DIFFERENT, NOT_PROVABLE = 0, 1, 2
"""Exit codes. NOT_PROVABLE: the decisions agree, with other code or only as far as the recording is whole."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(OfRecording, Showing):
    """The options of ``tandem replay``."""

    SECTION: ClassVar[str] = "Options"
    place: Path = argument("DIR", "A recording's folder, one of its files, or a snapshot.", reads=Path)
    config: str = option("--config", metavar="FILE", help="Decide by this configuration, and compare.")
    anonymise: Path | None = option(
        "--anonymise", metavar="FILE", help="Write it under other names, for others.", default=None, reads=Path
    )


def replay(options: ReplayOptions) -> int:
    """Decide a recording again: proves that every decision is the same, or shows the first that is not.

    Exit code 0: all are the same. 1: one differs, or nothing can be replayed. 2: they agree, and prove nothing, since
    the code is not the one that was recorded, or the recording is damaged.
    """
    classes = classes_of(options.plugin_folder)
    stop = until_of(options.until)
    if options.anonymise is not None:
        return write_anonymous(options.place, options.anonymise, classes, stop)
    if options.config:
        return compare(options.place, read_configuration(options.config), stop, classes, options.as_json)
    code = SAME
    reports = []
    for stretch in stretches(options.place, Maker(classes), stop):
        report = _report(stretch)
        reports.append(report)
        if not options.as_json:
            _print(report)
        code = max(code, _code_of(report), key=_weight)
    if options.as_json:
        print(msgspec.json.format(msgspec.json.encode(reports), indent=2).decode())
    return code


def _weight(code: int) -> int:
    return (SAME, NOT_PROVABLE, DIFFERENT).index(code)


def _code_of(report: dict[str, Any]) -> int:
    if "difference" in report or not report["wasReplayed"]:
        return DIFFERENT
    return NOT_PROVABLE if report["problem"] or report["notProvable"] else SAME


def _report(stretch: Stretch) -> dict[str, Any]:
    replay = stretch.replay
    report: dict[str, Any] = {
        "files": [str(path) for path in stretch.paths],
        "wasReplayed": replay.last is not None,
        "inputs": replay.applied,
        "decisions": replay.decisions,
        "until": time_text(replay.last) if replay.last is not None else "",
        "problem": stretch.problem,
        "notes": stretch.notes,
        "notProvable": why_not_provable(stretch.about, [one.profiles for one in replay.made]) if replay.made else [],
    }
    found = stretch.difference
    if found is not None:
        report["difference"] = {
            "number": found.number,
            "at": time_text(found.now),
            "input": found.input,
            "pod": found.pod,
            "expected": found.expected,
            "got": found.got,
        }
    return report


def _print(report: dict[str, Any]) -> None:
    console = terminal(soft_wrap=True, highlight=False)
    files = report["files"]
    console.print(f"[bold]{escape(files[0])}[/bold]" + (f" and {len(files) - 1} more" if len(files) > 1 else ""))
    for note in report["notes"]:
        console.print(f"  {escape(note)}")
    if report["problem"]:
        complain(report["problem"])
    if not report["wasReplayed"]:
        return
    counts = f"{report['decisions']} decisions, {report['inputs']} inputs, until {report['until']}"
    difference = report.get("difference")
    if difference is not None:
        _print_difference(difference, console)
        console.print(f"  Before it: {counts}")
    else:
        console.print(f"  {counts}: [green]each is the same[/green]")
    for reason in report["notProvable"]:
        console.print(f"  [yellow]Not provable[/yellow]: {escape(reason)}")


def _print_difference(difference: dict[str, Any], console: Console) -> None:
    of = f"pod [bold]{escape(difference['pod'])}[/bold]" if difference["pod"] else difference["input"]
    console.print(f"  [red]Decided otherwise[/red]: {of}, input {difference['number']} at {difference['at']}")
    expected, got = _lines(difference["expected"]), _lines(difference["got"])
    for line in [line for line in expected if line not in got] or expected:
        console.print(f"    expected  {escape(line)}")
    for line in [line for line in got if line not in expected] or got:
        console.print(f"    got       {escape(line)}")


def _lines(outcome: Any) -> list[str]:
    said = outcome if isinstance(outcome, list) else [outcome]
    return [msgspec.json.encode(each).decode() for each in said] or ["nothing"]


def time_text(now: Now) -> str:
    """RFC 3339 with microseconds."""
    seconds, nanoseconds = divmod(now.wall, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanoseconds // 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
