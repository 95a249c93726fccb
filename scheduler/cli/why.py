"""``tandem why``: why a pod, or a group of pods, is where it is, or why it waits."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

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
from scheduler.cli.groups import print_group, print_group_of_pod
from scheduler.cli.tables import merged, names, reasons, spaced, table

_FITS, _DOES_NOT = "[green]fits[/green]", "[red]no[/red]"


def why(
    pod: Annotated[
        str, typer.Argument(metavar="POD", help="NAME, or NAMESPACE/NAME, of a pod or a group.", show_default=False)
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The pod's namespace.")] = "default",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    scheduler: SchedulerLease = LEASE,
    server: Server = "",
    server_ca: ServerAuthority = "",
    server_fingerprint: ServerFingerprint = "",
    as_json: AsJson = False,
) -> int:
    """Why a pod is where it is, or why it waits: node by node, what would wake it, what preemption found.

    Of a group of pods: how many of how many are there, and which member fails where."""
    key = pod if "/" in pod else f"{namespace}/{pod}"
    access = access_of(kubeconfig, context, scheduler, server, server_ca, server_fingerprint)
    return show_page(f"/debug/why/{key}", access, as_json, print_why)


def print_why(page: dict[str, Any], console: Console) -> None:
    """Print a pod's page: its state, its last attempt, a preview, its place in the queue."""
    if "pod" not in page:
        print_group(page, console)
        return
    attempt, story, preview = page.get("attempt"), page.get("queue"), page.get("preview")
    console.print(f"[bold]{escape(page['pod'])}[/bold]  {_standing(page)}")
    if page.get("isOurs") is False:
        console.print(f"It asks for scheduler {escape(page['schedulerName'])}, which is not one of ours.")
    if "group" in page:
        print_group_of_pod(page["group"], console)
    if attempt is not None:
        _print_attempt(attempt, console)
    if "madeRoom" in page:
        made_room = page["madeRoom"]
        console.print(f"\nRoom was made for it by attempt {made_room['number']} at {made_room['at']}")
        _print_preemption(made_room, console)
    if preview is not None:
        _print_preview(preview, console)
    for finding in page.get("findings", ()):
        _print_finding(finding, console)
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
        rows = table("Refused by", "Nodes", "Why", "Which")
        for entry in attempt["refusals"]:
            rows.add_row(entry["plugin"], str(entry["count"]), reasons(entry), names(entry["nodes"]))
        console.print(rows)
    if attempt.get("scores"):
        console.print(_score_table(attempt["scores"][:10]))
    # A successful preemption is shown separately, since later attempts replace it.
    if "preemption" in attempt and not attempt["preemption"]["nominatedNode"]:
        _print_preemption(attempt["preemption"], console)


def _score_table(scores: list[dict[str, Any]]) -> Table:
    plugins = list(dict.fromkeys(plugin for entry in scores for plugin in entry["scores"]))
    rows = table("Node", "Total", *(spaced(plugin) for plugin in plugins))
    for entry in scores:
        rows.add_row(
            escape(entry["node"]), f"[bold]{entry['total']}[/bold]", *(str(entry["scores"].get(p, "")) for p in plugins)
        )
    return rows


def _print_preemption(evidence: dict[str, Any], console: Console) -> None:
    if evidence["nominatedNode"]:
        console.print(
            f"Preemption: room is made on [green]{escape(evidence['nominatedNode'])}[/green], "
            f"{evidence['candidateCount']} candidate(s), decided by: {evidence['criterion']}"
        )
    elif evidence["message"]:
        console.print(f"Preemption found nothing: {escape(evidence['message'])}")
    if evidence["candidates"]:
        rows = table("Candidate", "Victims (priority)", "Violated budgets")
        for candidate in evidence["candidates"][:10]:
            victims = ", ".join(f"{escape(one['pod'])} ({one['priority']})" for one in candidate["victims"])
            rows.add_row(escape(candidate["node"]), victims, str(candidate["violatedBudgets"]))
        console.print(rows)


def _print_finding(finding: dict[str, Any], console: Console) -> None:
    """A plugin's findings, one for each group of similar nodes."""
    more = ", …" if finding["count"] > len(finding["nodes"]) else ""
    where = f"{finding['count']} node{'s' * (finding['count'] != 1)}: {', '.join(finding['nodes'])}{more}"
    console.print(f"\n{escape(finding['plugin'])}, {escape(where)}")
    for line in finding["lines"]:
        console.print(f"  {escape(line)}")


def _print_preview(preview: dict[str, Any], console: Console) -> None:
    # A member starts with its group: that it fits by itself says nothing about when.
    now = "Now, by itself" if preview["isOfGroup"] else "Now"
    if "refusal" in preview:
        entry = preview["refusal"]
        console.print(f"\n{now}: refused as a whole by {entry['plugin']}: {reasons(entry)}")
        return
    console.print(f"\n{now}: {'it would fit' if preview['fits'] else escape(preview.get('message', ''))}")
    listed = preview.get("listed", ())
    if not listed:
        return
    rows = table("Node", "", "Plugin", "Why", "Score")
    for entry in listed[:30]:
        is_refused = "status" in entry
        rows.add_row(
            escape(entry["node"]),
            _DOES_NOT if is_refused else _FITS,
            entry.get("plugin", ""),
            reasons(entry) if is_refused else "",
            str(entry.get("total", "")),
        )
    console.print(rows)
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
        console.print(f"  {wish['plugin']} waits for  {escape('; '.join(merged(wish['events'])))}")
    if "nextTry" in story:
        console.print(f"  without any of that it is tried again at {story['nextTry']}")
