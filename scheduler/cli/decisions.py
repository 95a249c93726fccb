"""``tandem decisions``: the newest decisions of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Console
from rich.markup import escape

from scheduler.cli.asking import AskingRunning, show_page
from scheduler.cli.options import option, whole
from scheduler.cli.tables import short, table


@dataclass(frozen=True, kw_only=True)
class DecisionsOptions(AskingRunning):
    """The options of ``tandem decisions``."""

    SECTION: ClassVar[str] = "Options"
    limit: int = option("--limit", metavar="N", help="How many.", default=100, reads=whole(1, 1000), shows=True)


def decisions(options: DecisionsOptions) -> int:
    """Show the newest decisions: which pod went where, or why it did not, and its victims."""
    path = f"/debug/decisions?limit={options.limit}"
    return show_page(path, options.source(), options.as_json, print_decisions)


def print_decisions(page: dict[str, Any], console: Console) -> None:
    """Print a row for each decision, the newest last."""
    rows = table("Time", "Pod", "Result", "Why")
    for one in page["decisions"]:
        result = f"to {one['node']}" if one["result"] == "scheduled" else one["result"]
        why = one.get("message", "")
        if one.get("nominatedNode"):
            why = f"nominated to {one['nominatedNode']}, preempts {', '.join(one.get('victims', []))}. {why}"
        rows.add_row(short(one["at"]), escape(one["pod"]), escape(result), escape(why))
    console.print(rows)
    if page["leftOut"]:
        console.print(f"  and {page['leftOut']} older ones")
    if page["hidden"]:
        console.print(f"  and {page['hidden']} of namespaces whose pods you may not see")
