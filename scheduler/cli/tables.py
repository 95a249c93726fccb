"""The terminal and the tables that commands print: formats of rows, times, events and names."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def terminal(*, soft_wrap: bool = False, highlight: bool = True) -> Console:
    """Standard output. A width of 0, as COLUMNS has it where a terminal doesn't know its own, is none: rich takes it at
    its word."""
    console = Console(soft_wrap=soft_wrap, highlight=highlight)
    if console.width < 1:
        console.width = shutil.get_terminal_size().columns
    return console


def short(time: str) -> str:
    """A time such as ``2026-11-21T15:17:55Z`` without its year: the table is wide enough."""
    return time[5:19].replace("T", " ")


def age(time: str, now: datetime) -> str:
    """How long ago ``2026-11-21T15:17:55Z`` was, as kubectl writes it: ``95s``, ``12m``, ``5h``, ``3d``."""
    seconds = max(int((now - datetime.fromisoformat(time)).total_seconds()), 0)
    for size, unit, limit in ((1, "s", 120), (60, "m", 180), (3600, "h", 48)):
        if seconds < size * limit:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86400}d"


def merged(events: Iterable[str]) -> list[str]:
    """The events with those of one kind in one text, such as ``Node: Add`` and ``Node: Add, UpdateNodeTaint``; kinds
    without their groups."""
    wanted: dict[str, dict[str, None]] = {}
    for event in events:
        resource, _, actions = event.partition(": ")
        wanted.setdefault(resource.rpartition("/")[2], {}).update(dict.fromkeys(actions.split(", ")))
    return [f"{kind}: {', '.join(actions)}" for kind, actions in wanted.items()]


def table(*columns: str, right: bool = False) -> Table:
    """A table of these columns; with ``right`` all but the first one hold numbers."""
    rows = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        rows.add_column(column, overflow="fold", vertical="top", justify="right" if right and place else "left")
    return rows


def reasons(entry: dict[str, Any]) -> str:
    return escape(", ".join(entry["reasons"]))


def names(listed: list[str], limit: int = 5) -> str:
    shown = ", ".join(escape(name) for name in listed[:limit])
    return f"{shown}, …" if len(listed) > limit else shown
