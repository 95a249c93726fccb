"""``tandem capacity``: what is free, in units of the pods that wait and of those that run most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote

from rich.console import Console
from rich.markup import escape

from scheduler.cli.asking import Asking, show_page
from scheduler.cli.options import option
from scheduler.cli.tables import table
from scheduler.objects.shown_amounts import shown_amount

PAGE: Final = "/debug/capacity"


@dataclass(frozen=True, kw_only=True)
class CapacityOptions(Asking):
    """The options of ``tandem capacity``."""

    SECTION: ClassVar[str] = "Options"
    pool: str = option(
        "--pool",
        metavar="LABEL[,LABEL]",
        help="The labels whose values name a pool. Default: the first known label of a provider that nodes have.",
    )


def capacity(options: CapacityOptions) -> int:
    """What is free by pool of nodes and resource, how many more pods fit, and where room is lost."""
    path = f"{PAGE}?pool={quote(options.pool)}" if options.pool else PAGE
    return show_page(path, options.source(), options.as_json, print_capacity)


def print_capacity(page: dict[str, Any], console: Console) -> None:
    """Print a table of resources and a table of pods for each pool."""
    labels = ", ".join(page["poolLabels"])
    console.print(f"Pools by {escape(labels)}" if labels else "All nodes are one pool; --pool LABEL divides them")
    shapes = {shape["name"]: shape for shape in page["shapes"]}
    for pool in page["pools"]:
        closed = f", {pool['cordoned']} cordoned" if pool["cordoned"] else ""
        console.print(
            f"\n[bold]{escape(pool['name']) or '(none)'}[/bold]: "
            f"{pool['nodes']} node{'s' * (pool['nodes'] != 1)}{closed}"
        )
        rows = table("Resource", "Free", "Of", "Most on one node")
        for name, amount in pool["resources"].items():
            share = f"{100 * amount['free'] // max(amount['allocatable'], 1)} %"
            free, offered, largest = (
                shown_amount(name, amount[field]) for field in ("free", "allocatable", "largestFree")
            )
            rows.add_row(escape(name), f"{free} ({share})", offered, largest)
        console.print(rows)
        _print_fits(pool["fits"], shapes, console)
    for shape in page["shapes"]:
        if shape["message"]:
            console.print(f"\nNo node takes {escape(shape['name'])}: {escape(shape['message'])}")
    if any(_is_bound(one, shapes) for pool in page["pools"] for one in pool["fits"]):
        console.print("\n≤: its pods may refuse each other; tandem what-if --max places them one by one.")
    if page["poolsLeftOut"]:
        console.print(f"… and {page['poolsLeftOut']} more pools")


def _is_bound(fit: dict[str, Any], shapes: dict[str, dict[str, Any]]) -> bool:
    """Whether the number is an upper bound: fewer may fit. 0 is exact."""
    return bool(shapes[fit["shape"]]["isUpperBound"] and fit["count"])


def _print_fits(fits: list[dict[str, Any]], shapes: dict[str, dict[str, Any]], console: Console) -> None:
    if not fits:
        return
    rows = table("Pods like", "There are", "More fit", "On nodes", "Fragmented", "Runs out first", "Closed nodes")
    for one in fits:
        shape = shapes[one["shape"]]
        state = "waiting" if shape["isWaiting"] else "running"
        limited = ", ".join(f"{escape(name)}: {count}" for name, count in one["limitedBy"].items())
        outside = f", {one['outsideOfScope']} outside of nodeScope" if one["outsideOfScope"] else ""
        count = f"≤ {one['count']}" if _is_bound(one, shapes) else str(one["count"])
        rows.add_row(
            escape(one["shape"]),
            f"{shape['pods']} {state}",
            count,
            str(one["nodes"]),
            str(one["lost"]),
            limited,
            f"{one['closed']}{outside}",
        )
    console.print(rows)
