"""``tandem nodes``: every node with what is taken of it, or one with its pods."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

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
from scheduler.cli.tables import names, table
from scheduler.objects.shown_amounts import shown_amount

PAGE: Final = "/debug/nodes"
MAX_ROWS: Final = 500


def nodes(
    node: Annotated[str, typer.Argument(metavar="[NODE]", help="One node: its pods, and who is nominated.")] = "",
    pool: Annotated[
        str, typer.Option("--pool", metavar="LABEL", help="The label whose value is a node's pool.", show_default=False)
    ] = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    scheduler: SchedulerLease = LEASE,
    server: Server = "",
    server_ca: ServerAuthority = "",
    server_fingerprint: ServerFingerprint = "",
    as_json: AsJson = False,
) -> int:
    """Show what is taken of every node, or who is on one and who is nominated to it."""
    access = access_of(kubeconfig, context, scheduler, server, server_ca, server_fingerprint)
    source = source_of(access, "", "", "")
    if node:
        return show_page(f"{PAGE}/{quote(node, safe='')}", source, as_json, print_node)
    return show_page(f"{PAGE}?pool={quote(pool)}" if pool else PAGE, source, as_json, print_nodes)


def print_nodes(page: dict[str, Any], console: Console) -> None:
    """Print a row for each node, those with the most of their CPU taken first."""
    resources = page["resources"]
    shown = [at for at, name in enumerate(resources) if any(one["allocatable"][at] for one in page["nodes"])]
    rows = table("Node", "Pool", *(resources[at] for at in shown), "State")
    fullest = sorted(page["nodes"], key=lambda one: -one["requested"][0] / max(one["allocatable"][0], 1))
    for one in fullest[:MAX_ROWS]:
        amounts = (_taken(resources[at], one["requested"][at], one["allocatable"][at]) for at in shown)
        states = [
            "cordoned" if one.get("unschedulable") else "",
            f"{one['taints']} taints" if one.get("taints") else "",
            f"{one['nominated']} nominated" if one["nominated"] else "",
        ]
        rows.add_row(escape(one["node"]), escape(one["pool"]), *amounts, ", ".join(filter(None, states)))
    console.print(rows)
    if len(fullest) > MAX_ROWS:
        console.print(f"  … and {len(fullest) - MAX_ROWS} more nodes; --json lists them")


def print_node(page: dict[str, Any], console: Console) -> None:
    """Print one node's room and pods."""
    console.print(f"[bold]{escape(page['node'])}[/bold]" + (", cordoned" if page["unschedulable"] else ""))
    for name, one in page["resources"].items():
        if one["allocatable"] or one["requested"]:
            console.print(f"  {escape(name)}: {_taken(name, one['requested'], one['allocatable'])} taken")
    taints = [f"{one['key']}={one['value']}:{one['effect']}" for one in page["taints"]]
    if taints:
        console.print(f"  taints: {names(taints)}")
    for title, part in (("nominated", "nominated"), ("pods", "pods")):
        count = page["nominatedCount" if part == "nominated" else "podCount"]
        if not count:
            continue
        console.print(f"{title}: {count}")
        rows = table("Pod", "Priority", "Requests", "Scheduler")
        for pod in page[part][:MAX_ROWS]:
            requests = ", ".join(f"{name} {shown_amount(name, amount)}" for name, amount in pod["requests"].items())
            rows.add_row(escape(pod["pod"]), str(pod["priority"]), escape(requests), escape(pod["schedulerName"]))
        console.print(rows)
        if count > len(page[part][:MAX_ROWS]):
            console.print(f"  … and {count - len(page[part][:MAX_ROWS])} more")


def _taken(resource: str, requested: int, allocatable: int) -> str:
    return f"{shown_amount(resource, requested)} of {shown_amount(resource, allocatable)}"
