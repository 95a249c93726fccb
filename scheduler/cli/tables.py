"""The tables of ``tandem why`` and ``tandem queue``: formats of rows, times, events and names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table


def short(time: str) -> str:
    """``2026-11-21T15:17:55Z`` without its year: the table is wide enough."""
    return time[5:19].replace("T", " ")


def merged(events: Iterable[str]) -> list[str]:
    """``Node: Add`` and ``Node: Add, UpdateNodeTaint`` in one, kinds without their groups."""
    wanted: dict[str, dict[str, None]] = {}
    for event in events:
        resource, _, actions = event.partition(": ")
        wanted.setdefault(resource.rpartition("/")[2], {}).update(dict.fromkeys(actions.split(", ")))
    return [f"{kind}: {', '.join(actions)}" for kind, actions in wanted.items()]


def table(*columns: str) -> Table:
    rows = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        rows.add_column(column, overflow="fold", vertical="top")
    return rows


def spaced(name: str) -> str:
    """A plugin's name in words, so that a narrow column breaks it where people would."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def reasons(entry: dict[str, Any]) -> str:
    return escape(", ".join(entry["reasons"]))


def names(listed: list[str], limit: int = 5) -> str:
    shown = ", ".join(escape(name) for name in listed[:limit])
    return f"{shown}, …" if len(listed) > limit else shown
