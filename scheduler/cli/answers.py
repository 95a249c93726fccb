"""Prints the answers of questions as tables."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from scheduler.cli.tables import names, reasons, table

MAX_ROWS: Final = 40
_BOUNDS: Final = {"steps": "as many pods as one question may try", "seconds": "the seconds that one question may take"}


def print_answer(answer: dict[str, Any], console: Console) -> None:
    """Print the answer of a what-if question: the outcome in a line, then where each pod goes, and what is in the
    way."""
    placed, pending = answer["placed"], answer["pending"]
    if placed or pending:
        color = "yellow" if pending else "green"
        console.print(f"[{color}]{placed} placed, {pending} would wait[/{color}], on {answer['nodes']} nodes")
    if answer.get("nodesAdded"):
        console.print(f"Nodes added: {names(answer['nodesAdded'])}")
    _print_placements(answer.get("placements", []), console)
    _print_refusals(answer.get("placements", []), console)
    _print_left(answer, console)
    for room in answer.get("room", ()):
        _print_room(room, console)
    _print_hidden(answer.get("hidden"), console)
    for note in answer.get("notes", ()):
        console.print(f"Note: {escape(note)}")
    if answer.get("bound"):
        left_out = f"; {answer['notTried']} pods were not tried" if answer.get("notTried") else ""
        console.print(f"[yellow]Stopped at {_BOUNDS[answer['bound']]}{left_out}.[/yellow]")


def _print_placements(placements: list[dict[str, Any]], console: Console) -> None:
    shown = [one for one in placements if one.get("node")]
    if not shown:
        return
    rows = table("Pod", "From", "Goes to", "Choice", "Preempts")
    for one in shown[:MAX_ROWS]:
        victims = names(one.get("victims", []))
        if one.get("hiddenVictims"):
            victims += f" and {one['hiddenVictims']} more" if victims else f"{one['hiddenVictims']} pods"
        if one.get("violatedBudgets"):
            victims += f" ({one['violatedBudgets']} against a budget)"
        rows.add_row(escape(one["pod"]), _origin(one), escape(one["node"]), _choice(one), victims)
    console.print(rows)
    if len(shown) > MAX_ROWS:
        console.print(f"  … and {len(shown) - MAX_ROWS} more; --json lists up to 1000")


def _origin(one: dict[str, Any]) -> str:
    origin = str(one["origin"])
    if one.get("afterSeconds"):
        origin += f" after {one['afterSeconds']} s"
    return f"{origin}, {escape(one['leftNode'])}" if one.get("leftNode") else origin


def _choice(one: dict[str, Any]) -> str:
    """Whether the node is certain, or how many were equally good."""
    count = one.get("allowedCount", 1)
    text = "certain" if count == 1 else f"one of {count}"
    if count == 1 and one.get("afterChance"):
        text = "by earlier choices"
    if one.get("isSampled"):
        text += ", sampled"
    if one.get("waits"):
        text += f", waits for {escape(', '.join(one['waits']))}"
    return text


def _print_refusals(placements: list[dict[str, Any]], console: Console) -> None:
    """The pods that would wait, by what is said of them."""
    by_message: dict[str, list[dict[str, Any]]] = {}
    for one in placements:
        if not one.get("node"):
            by_message.setdefault(one.get("message", ""), []).append(one)
    for message, ones in list(by_message.items())[:MAX_ROWS]:
        console.print(f"\n{len(ones)} would wait: {names([one['pod'] for one in ones])}")
        console.print(f"  {escape(message)}")


def _print_left(answer: dict[str, Any], console: Console) -> None:
    if answer.get("left"):
        rows = table("Pod", "Node", "", "Why")
        for one in answer["left"][:MAX_ROWS]:
            why = one["why"] + (f": {', '.join(one['budgets'])}" if one.get("budgets") else "")
            rows.add_row(escape(one["pod"]), escape(one["node"]), "stays" if one["stays"] else "ends", escape(why))
        console.print(rows)
    if answer.get("leftCount", 0) > MAX_ROWS:
        console.print(f"  … and {answer['leftCount'] - MAX_ROWS} more")
    for one in answer.get("budgets", ()):
        text = f"{one['wanted']} evictions wanted, {one['allowed']} allowed at once"
        if one["blocked"]:
            text += f", [red]{one['blocked']} refused[/red]"
        console.print(f"Budget {escape(one['budget'])}: {text}")


def _print_room(room: dict[str, Any], console: Console) -> None:
    least = "at least " if room["isAtLeast"] else ""
    console.print(f"\n[bold]{least}{room['count']} more[/bold] of {escape(room['workload'])} fit")
    if room["byNode"]:
        rows = table("Node", "More")
        for node, count in sorted(room["byNode"].items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_ROWS]:
            rows.add_row(escape(node), str(count))
        console.print(rows)
    if len(room["byNode"]) > MAX_ROWS:
        console.print(f"  … and {len(room['byNode']) - MAX_ROWS} more nodes")
    if room["runsOut"]:
        rows = table("Then refused by", "Nodes", "Why")
        for one in room["runsOut"]:
            rows.add_row(one["plugin"], str(one["count"]), reasons(one))
        console.print(rows)


def _print_hidden(hidden: dict[str, Any] | None, console: Console) -> None:
    if hidden:
        counts = ", ".join(f"{count} {name}" for name, count in hidden.items() if count)
        console.print(f"In namespaces whose pods the asking account may not list: {counts}")
