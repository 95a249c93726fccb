"""``tandem decisions``: the newest decisions of the scheduler."""

from __future__ import annotations

from typing import Annotated, Any

import typer
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
    source_of,
)
from scheduler.cli.tables import short, table


def decisions(
    limit: Annotated[int, typer.Option("--limit", help="How many.", min=1, max=1000)] = 100,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    scheduler: SchedulerLease = LEASE,
    server: Server = "",
    server_ca: ServerAuthority = "",
    server_fingerprint: ServerFingerprint = "",
    as_json: AsJson = False,
) -> int:
    """Show the newest decisions: which pod went where, or why it did not, and its victims."""
    access = access_of(kubeconfig, context, scheduler, server, server_ca, server_fingerprint)
    source = source_of(access, "", "", "")
    return show_page(f"/debug/decisions?limit={limit}", source, as_json, print_decisions)


def print_decisions(page: dict[str, Any], console: Console) -> None:
    """Print a row for each decision, the newest last."""
    rows = table("Time", "Pod", "Result", "Why")
    for one in page["decisions"]:
        result = f"to {one['node']}" if one["result"] == "scheduled" else one["result"]
        why = one.get("message", "")
        if one.get("nominatedNode"):
            why = f"nominated to {one['nominatedNode']}, pushes out {', '.join(one.get('victims', []))}. {why}"
        rows.add_row(short(one["at"]), escape(one["pod"]), escape(result), escape(why))
    console.print(rows)
    if page["leftOut"]:
        console.print(f"  and {page['leftOut']} older ones")
    if page["hidden"]:
        console.print(f"  and {page['hidden']} of namespaces whose pods you may not see")
