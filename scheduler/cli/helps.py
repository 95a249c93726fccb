"""``tandem why POD --what-helps``: the changes with which a waiting pod would fit, or its group start."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from rich.console import Console
from rich.markup import escape

from scheduler.cli.tables import names, table

HELPS_PAGE: Final = "/debug/what-helps"


def question_about(key: str) -> bytes:
    """The question about a pod or a group, ``namespace/name``, as JSON."""
    return msgspec.json.encode({"pod": key})


def print_helps(page: dict[str, Any], console: Console) -> None:
    """Print why a pod waits, each change that helps with the node that it leads to, and what nodes have."""
    group = page.get("group", "")
    console.print(f"[bold]{escape(page['pod'] or group)}[/bold]")
    if group and page["pod"]:
        console.print(f"It starts with its group {escape(group)}.")
    if page.get("unaskedExtenders"):
        console.print(f"Extenders have a say, and were not asked: {names(page['unaskedExtenders'])}.")
    if page.get("fitsNow"):
        console.print(f"It fits now, on [green]{escape(page['fitsNow'])}[/green].")
        return
    console.print(f"  {escape(page.get('message', ''))}")
    if page.get("helps"):
        rows = table("Would help", "Then its pods go to" if group else "Then it goes to", "Preempts")
        for one in page["helps"]:
            victims = names(one.get("victims", []))
            if one.get("hiddenVictims"):
                victims += f" and {one['hiddenVictims']} more" if victims else f"{one['hiddenVictims']} pods"
            rows.add_row(escape(one["text"]), _where(one), victims)
        console.print(rows)
    else:
        console.print("\nNo single change that was tried would help.")
    for values in page.get("values", ()):
        found = ", ".join(f"{escape(value) or '(none)'}: {count}" for value, count in values["found"].items())
        console.print(f"It wants {escape(values['wanted'])}; nodes have {found}")
    if page.get("hidden"):
        console.print(
            f"{page['hidden']} changes concern pods in namespaces whose pods the asking account may not list."
        )
    if page.get("bound"):
        console.print(f"[yellow]The search stopped after {page['trials']} trials: there may be more.[/yellow]")


def _where(one: dict[str, Any]) -> str:
    """``n1, one of 3``; of a group ``n1 (2), n2``."""
    if "nodes" not in one:
        return escape(one["node"]) + (f", one of {one['allowedCount']}" if one.get("allowedCount", 1) > 1 else "")
    counted = [f"{node} ({count})" if count > 1 else node for node, count in one["nodes"].items()]
    return names(counted)
