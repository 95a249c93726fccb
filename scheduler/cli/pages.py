"""``tandem why`` and ``tandem queue``: ask a running scheduler, and print its answer as tables."""

from __future__ import annotations

import re
import sys
import urllib.error
from collections.abc import Iterable
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scheduler.cli.connection import fetch
from scheduler.engine.explain import MAX_WAITING_LISTED

MOST_ROWS = 500
"""Pods printed one by one."""

_FITS, _DOES_NOT = "[green]fits[/green]", "[red]no[/red]"


def show_why(server: str, key: str, as_json: bool) -> int:
    """Exit code 1 where the scheduler can't be asked or doesn't know the pod; one line says so."""
    return _show(f"{server.rstrip('/')}/debug/why/{key}", as_json, print_why)


def show_queue(server: str, as_json: bool) -> int:
    return _show(f"{server.rstrip('/')}/debug/queue", as_json, print_queue)


def _show(url: str, as_json: bool, print_page: Any) -> int:
    try:
        body = fetch(url)
        page = msgspec.json.decode(body)
    except urllib.error.HTTPError as error:
        print(f"Error: {_error_text(error)}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        print(f"Error: {url} can't be asked: {reason}. Is the scheduler running? See --server.", file=sys.stderr)
        return 1
    if as_json:
        print(msgspec.json.format(body, indent=2).decode())
    else:
        print_page(page, Console())
    return 0


def _error_text(error: urllib.error.HTTPError) -> str:
    try:
        page = msgspec.json.decode(error.read())
        return str(page.get("error") or page["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{error.url}: HTTP {error.code}"


# --- why --------------------------------------------------------------------------------------------------------------


def print_why(page: dict[str, Any], console: Console) -> None:
    """A pod's page: where it stands, its last attempt, what it would meet now, its place in the queue."""
    attempt, story, preview = page.get("attempt"), page.get("queue"), page.get("preview")
    console.print(f"[bold]{escape(page['pod'])}[/bold]  {_standing(page)}")
    if page.get("isOurs") is False:
        console.print(f"It asks for scheduler {escape(page['schedulerName'])}, which is not one of ours.")
    if attempt is not None:
        _print_attempt(attempt, console)
    if "madeRoom" in page:
        made_room = page["madeRoom"]
        console.print(f"\nRoom was made for it by attempt {made_room['number']} at {made_room['at']}")
        _print_preemption(made_room, console)
    if preview is not None:
        _print_preview(preview, console)
    if story is not None:
        _print_story(story, console)


def _standing(page: dict[str, Any]) -> str:
    if page["node"]:
        return f"is on [green]{escape(page['node'])}[/green]"
    text = "[yellow]waits[/yellow]" if "queue" in page else "has no node"
    if page["nominatedNode"]:
        text += f", nominated to {escape(page['nominatedNode'])}"
    return text


def _print_attempt(attempt: dict[str, Any], console: Console) -> None:
    counts = f"{attempt['feasibleNodes']} of {attempt['nodes']} nodes fit"
    text = (
        f"\nAttempt {attempt['number']} at {attempt['at']}: [bold]{attempt['result'] or 'under way'}[/bold], {counts}"
    )
    console.print(text + (f", node {escape(attempt['node'])}" if attempt["node"] else ""))
    if attempt["message"]:
        console.print(f"  {escape(attempt['message'])}")
    if attempt.get("refusals"):
        table = _table("Refused by", "Nodes", "Why", "Which")
        for entry in attempt["refusals"]:
            table.add_row(entry["plugin"], str(entry["count"]), _reasons(entry), _names(entry["nodes"]))
        console.print(table)
    if attempt.get("scores"):
        console.print(_score_table(attempt["scores"][:10]))
    # What succeeded is told apart, since later attempts cover it up.
    if "preemption" in attempt and not attempt["preemption"]["nominatedNode"]:
        _print_preemption(attempt["preemption"], console)


def _score_table(scores: list[dict[str, Any]]) -> Table:
    plugins = list(dict.fromkeys(plugin for entry in scores for plugin in entry["scores"]))
    table = _table("Node", "Total", *(_spaced(plugin) for plugin in plugins))
    for entry in scores:
        table.add_row(
            escape(entry["node"]), f"[bold]{entry['total']}[/bold]", *(str(entry["scores"].get(p, "")) for p in plugins)
        )
    return table


def _print_preemption(evidence: dict[str, Any], console: Console) -> None:
    if evidence["nominatedNode"]:
        console.print(
            f"Preemption: room is made on [green]{escape(evidence['nominatedNode'])}[/green], "
            f"{evidence['candidateCount']} candidate(s), decided by: {evidence['criterion']}"
        )
    elif evidence["message"]:
        console.print(f"Preemption found nothing: {escape(evidence['message'])}")
    if evidence["candidates"]:
        table = _table("Candidate", "Victims (priority)", "Violated budgets")
        for candidate in evidence["candidates"][:10]:
            victims = ", ".join(f"{escape(one['pod'])} ({one['priority']})" for one in candidate["victims"])
            table.add_row(escape(candidate["node"]), victims, str(candidate["violatedBudgets"]))
        console.print(table)


def _print_preview(preview: dict[str, Any], console: Console) -> None:
    if "refusal" in preview:
        entry = preview["refusal"]
        console.print(f"\nNow: refused as a whole by {entry['plugin']}: {_reasons(entry)}")
        return
    console.print(f"\nNow: {'it would fit' if preview['fits'] else escape(preview.get('message', ''))}")
    listed = preview.get("listed", ())
    if not listed:
        return
    table = _table("Node", "", "Plugin", "Why", "Score")
    for entry in listed[:30]:
        is_refused = "status" in entry
        table.add_row(
            escape(entry["node"]),
            _DOES_NOT if is_refused else _FITS,
            entry.get("plugin", ""),
            _reasons(entry) if is_refused else "",
            str(entry.get("total", "")),
        )
    console.print(table)
    if preview["nodes"] > 30:
        console.print(f"  … and {preview['nodes'] - 30} more nodes; --json lists up to 500")


def _print_story(story: dict[str, Any], console: Console) -> None:
    console.print(
        f"\nQueue: [bold]{story['place']}[/bold] since {story['since']}, {story['attempts']} attempt(s)"
        + (f", backs off until {story['backsOffUntil']}" if "backsOffUntil" in story else "")
        + (", no event has woken it since its last attempt" if story["wasFlushed"] else "")
    )
    if story["gatedBy"]:
        console.print(f"  held back by {story['gatedBy']}: {escape(', '.join(story['gatingReasons']))}")
    if "binding" in story:
        console.print(f"  its binding to {escape(story['node'])} is under way: {story['binding']}")
    for wish in story.get("wokenBy", ()):
        console.print(f"  {wish['plugin']} waits for  {escape('; '.join(_merged(wish['events'])))}")
    if "nextTry" in story:
        console.print(f"  without any of that it is tried again at {story['nextTry']}")


# --- queue ------------------------------------------------------------------------------------------------------------


def print_queue(page: dict[str, Any], console: Console) -> None:
    """The queue's page: how many wait where, then each pod."""
    console.print("  ".join(f"{place} [bold]{count}[/bold]" for place, count in page["counts"].items()))
    if not page["pods"]:
        console.print("No pod waits.")
        return
    table = _table("Pod", "Place", "Since, next try", "Tries", "Rejected by, woken by")
    for story in page["pods"][:MOST_ROWS]:
        rejected = [story["gatedBy"]] if story["gatedBy"] else sorted({*story["rejectedBy"], *story["pendingOn"]})
        events = _merged(event for wish in story.get("wokenBy", ()) for event in wish["events"])
        table.add_row(
            escape(story["pod"]),
            story["place"] + (f" ({story['binding']})" if "binding" in story else ""),
            _short(story["since"]) + (f"\n{_short(story['nextTry'])}" if "nextTry" in story else ""),
            str(story["attempts"]),
            escape(", ".join(rejected)) + (f"\n[dim]{escape('; '.join(events))}[/dim]" if events else ""),
        )
    console.print(table)
    waiting = max(sum(page["counts"].values()), len(page["pods"]))
    if waiting > min(len(page["pods"]), MOST_ROWS):
        more = waiting - min(len(page["pods"]), MOST_ROWS)
        console.print(f"  … and {more} more pods; --json lists up to {MAX_WAITING_LISTED}")


def _short(time: str) -> str:
    """``2026-11-21T15:17:55Z`` without its year: the table is wide enough."""
    return time[5:19].replace("T", " ")


def _merged(events: Iterable[str]) -> list[str]:
    """``Node: Add`` and ``Node: Add, UpdateNodeTaint`` in one, kinds without their groups."""
    wanted: dict[str, dict[str, None]] = {}
    for event in events:
        resource, _, actions = event.partition(": ")
        wanted.setdefault(resource.rpartition("/")[2], {}).update(dict.fromkeys(actions.split(", ")))
    return [f"{kind}: {', '.join(actions)}" for kind, actions in wanted.items()]


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", vertical="top")
    return table


def _spaced(name: str) -> str:
    """A plugin's name in words, so that a narrow column breaks it where people would."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def _reasons(entry: dict[str, Any]) -> str:
    return escape(", ".join(entry["reasons"]))


def _names(names: list[str], most: int = 5) -> str:
    shown = ", ".join(escape(name) for name in names[:most])
    return f"{shown}, …" if len(names) > most else shown
