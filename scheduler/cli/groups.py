"""Groups of pods on the pages of ``tandem why`` and ``tandem queue``."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from scheduler.cli.tables import short, table

MAX_ROWS = 100
"""Members printed one by one."""


def print_group(page: dict[str, Any], console: Console) -> None:
    """Print a group's page: how many of how many, the last attempt, and each member."""
    console.print(f"[bold]{escape(page['group'])}[/bold]  {standing(page)}")
    if "missing" in page:
        console.print(escape(page["missing"]))
    elif page["topologyKey"]:
        console.print(f"All its nodes must have one value of the label {escape(page['topologyKey'])}.")
    _print_attempt(page, "Attempt", console)
    if not page["members"]:
        return
    rows = table("Pod", "Where", "Since", "Tries", "Why")
    for member in page["members"][:MAX_ROWS]:
        rows.add_row(
            escape(member["pod"]),
            escape(member["node"] or member.get("place", "")),
            short(member["since"]) if "since" in member else "",
            str(member.get("attempts", "")),
            escape(member.get("message", "")),
        )
    console.print(rows)
    if page["pods"] > MAX_ROWS:
        console.print(f"  … and {page['pods'] - MAX_ROWS} more pods")


def print_group_of_pod(group: dict[str, Any], console: Console) -> None:
    """Print, on a pod's page, what decides about its group."""
    console.print(f"It belongs to the group {escape(group['group'])}: {standing(group)}.")
    if "missing" in group:
        console.print(escape(group["missing"]))
    _print_attempt(group, "Attempt of the group", console)


def _print_attempt(page: dict[str, Any], name: str, console: Console) -> None:
    attempt = page.get("attempt")
    if attempt is None:
        return
    text = f"\n{name} {attempt['attempts']} at {attempt['at']}: [bold]{attempt['result']}[/bold]"
    console.print(f"{text} since {attempt['since']}, {attempt['found']} of {attempt['tried']} pods found a node")
    if attempt["message"]:
        console.print(f"  {escape(attempt['message'])}")
    if "placement" in attempt:
        console.print(f"  placed in {escape(attempt['placement'])}, one of {attempt['placements']} sets of nodes")


def print_waiting_groups(groups: list[dict[str, Any]], console: Console) -> None:
    """Print the groups with pods that wait, a line each."""
    if not groups:
        return
    rows = table("Group", "Pods", "Last attempt", "Since")
    for group in groups[:MAX_ROWS]:
        rows.add_row(
            escape(group["group"]),
            standing(group),
            escape(group.get("message", "") or group.get("result", "")),
            short(group["since"]) if "since" in group else "",
        )
    console.print(rows)


def standing(group: dict[str, Any]) -> str:
    """How much of a group is there: ``3 of at least 4 pods exist, 0 are on nodes``."""
    quorum = "" if group["minCount"] is None else f" of at least {group['minCount']}"
    held = f", {group['held']} of them not bound yet" if group["held"] else ""
    return f"{group['pods']}{quorum} pods exist, {group['onNodes']} are on nodes{held}"
