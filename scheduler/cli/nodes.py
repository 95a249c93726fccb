"""``tandem nodes``: every node with what is taken of it, or one with its pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote

from rich.console import Console
from rich.markup import escape

from scheduler.cli.asking import AskingRunning, show_page
from scheduler.cli.options import argument, option
from scheduler.cli.tables import names, table
from scheduler.objects.shown_amounts import shown_amount

PAGE: Final = "/debug/nodes"
MAX_ROWS: Final = 500


@dataclass(frozen=True, kw_only=True)
class NodesOptions(AskingRunning):
    """The options of ``tandem nodes``."""

    SECTION: ClassVar[str] = "Options"
    node: str = argument("[NODE]", "One node: its pods, and who is nominated.", default="")
    pool: str = option("--pool", metavar="LABEL", help="The label whose value is a node's pool.")


def nodes(options: NodesOptions) -> int:
    """Show what is taken of every node, or who is on one and who is nominated to it."""
    source = options.source()
    if options.node:
        return show_page(f"{PAGE}/{quote(options.node, safe='')}", source, options.as_json, print_node)
    path = f"{PAGE}?pool={quote(options.pool)}" if options.pool else PAGE
    return show_page(path, source, options.as_json, print_nodes)


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
            f"{one['taints']} taint{'s' * (one['taints'] != 1)}" if one.get("taints") else "",
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
