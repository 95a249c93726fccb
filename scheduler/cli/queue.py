"""``tandem queue``: every pending pod."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from scheduler.cli.asking import (
    LEASE,
    AsJson,
    Context,
    Kubeconfig,
    SchedulerLease,
    Server,
    ServerAuthority,
    ServerFingerprint,
    access_of,
    show_page,
)
from scheduler.cli.groups import print_waiting_groups
from scheduler.cli.tables import merged, short, table
from scheduler.messages.page_limits import MAX_WAITING_LISTED

MAX_ROWS = 500
"""Pods printed one by one."""


def queue(
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    scheduler: SchedulerLease = LEASE,
    server: Server = "",
    server_ca: ServerAuthority = "",
    server_fingerprint: ServerFingerprint = "",
    as_json: AsJson = False,
) -> int:
    """Show every pending pod: where, since when, which plugins rejected it, and which events would wake it.

    Groups of pods come first: how many of how many are there."""
    access = access_of(kubeconfig, context, scheduler, server, server_ca, server_fingerprint)
    return show_page("/debug/queue", access, as_json, print_queue)


def print_queue(page: dict[str, Any], console: Console) -> None:
    """Print the queue's page: the number of pods in each part, then each pod."""
    print_waiting_groups(page.get("groups", []), console)
    console.print("  ".join(f"{place} [bold]{count}[/bold]" for place, count in page["counts"].items()))
    if not page["pods"]:
        console.print("No pod waits.")
        return
    rows = table("Pod", "Place", "Since, next try", "Tries", "Rejected by, woken by")
    for story in page["pods"][:MAX_ROWS]:
        rejected = [story["gatedBy"]] if story["gatedBy"] else sorted({*story["rejectedBy"], *story["pendingOn"]})
        events = merged(event for wish in story.get("wokenBy", ()) for event in wish["events"])
        rows.add_row(
            escape(story["pod"]),
            story["place"] + (f" ({story['binding']})" if "binding" in story else ""),
            short(story["since"]) + (f"\n{short(story['nextTry'])}" if "nextTry" in story else ""),
            str(story["attempts"]),
            escape(", ".join(rejected)) + (f"\n[dim]{escape('; '.join(events))}[/dim]" if events else ""),
        )
    console.print(rows)
    waiting = max(sum(page["counts"].values()), len(page["pods"]))
    printed = min(len(page["pods"]), MAX_ROWS)
    if waiting > printed:
        console.print(f"  … and {waiting - printed} more pods; --json lists up to {MAX_WAITING_LISTED}")
