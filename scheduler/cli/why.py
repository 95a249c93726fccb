"""``tandem why``: why a pod, or a group of pods, is where it is, or why it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote

from rich.console import Console
from rich.markup import escape

from scheduler.cli.asking import Asking, show_page
from scheduler.cli.context_namespace import context_namespace
from scheduler.cli.groups import print_group, print_group_of_pod
from scheduler.cli.helps import HELPS_PAGE, print_helps, question_about
from scheduler.cli.options import argument, option, switch
from scheduler.cli.tables import merged, names, reasons, table
from scheduler.errors import ConfigurationError, Fault
from scheduler.objects.workload_kinds import kind_of_workload

DEFAULT_NAMESPACE: Final = "default"
NODES_A_TABLE: Final = 4
"""Nodes beside each other in a table of scores: as many as fit 80 columns."""


@dataclass(frozen=True, kw_only=True)
class WhyOptions(Asking):
    """The options of ``tandem why``."""

    SECTION: ClassVar[str] = "Options"
    pod: str = argument("POD", "NAME or NAMESPACE/NAME, of a pod or a group, or a workload: deploy/NAME, job/NAME, ….")
    namespace: str = option(
        "--namespace", "-n", metavar="NAMESPACE", help="The namespace; by default the context's, else default."
    )
    node: str = option("--node", metavar="NODE", help="Explain this node in full.")
    what_helps: bool = switch("--what-helps", help="Which single changes would make it fit, or its group start.")


def why(options: WhyOptions) -> int:
    """Why a pod is where it is, or why it waits: node by node, what would wake it, what preemption found.

    Of a group of pods: how many of how many are there, and which member fails where."""
    source = options.source()
    default = (context_namespace(options.access()) if not options.place else "") or DEFAULT_NAMESPACE
    path = page_path(options.pod, options.namespace, default)
    if options.what_helps:
        question = question_about(_pod_key(options.pod, options.namespace, default))
        return show_page(HELPS_PAGE, source, options.as_json, print_helps, question)
    if options.node:
        path += f"?node={quote(options.node, safe='')}"
    return show_page(path, source, options.as_json, print_why)


def page_path(target: str, namespace: str, default: str = DEFAULT_NAMESPACE) -> str:
    """The page of a pod or of a workload; `default` is the namespace if neither the target nor `namespace` names one.

    Raises ConfigurationError for a target that is neither, and for two namespaces."""
    return "/debug/why/" + "/".join(quote(part, safe="") for part in _parts(target, namespace, default))


def _pod_key(target: str, namespace: str, default: str) -> str:
    parts = _parts(target, namespace, default)
    if len(parts) != 2:
        raise ConfigurationError([Fault("POD", f'"{target}" is a workload; --what-helps asks about one pod or group')])
    return "/".join(parts)


def _parts(target: str, namespace: str, default: str) -> list[str]:
    """Namespace and name, or namespace, kind and name."""
    first, slash, rest = target.partition("/")
    kind = kind_of_workload(first) if slash else None
    if kind is not None and "/" not in rest:
        parts = [namespace or default, kind, rest]
    elif not slash:
        parts = [namespace or default, target]
    elif namespace and first not in (namespace, "pod", "pods", "po"):
        raise ConfigurationError([Fault("--namespace", f'"{namespace}" is not the namespace of {target}')])
    elif first in ("pod", "pods", "po"):
        parts = [namespace or default, rest]
    else:
        parts = [first, rest]
    if not all(parts) or any("/" in part for part in parts):
        raise ConfigurationError([Fault("POD", f'"{target}" must be NAME, NAMESPACE/NAME or KIND/NAME')])
    return parts


def print_why(page: dict[str, Any], console: Console) -> None:
    """Print a pod's page: its state, its last attempt, a preview, its place in the queue."""
    if "workload" in page:
        print_workload(page, console)
        return
    if "pod" not in page:
        print_group(page, console)
        return
    attempt, story, preview = page.get("attempt"), page.get("queue"), page.get("preview")
    console.print(f"[bold]{escape(page['pod'])}[/bold]  {_standing(page)}")
    if page.get("isOurs") is False:
        console.print(f"It asks for scheduler {escape(page['schedulerName'])}, which is not one of ours.")
    if "leaving" in page:
        what = "" if page["node"] else ", and gets no node any more"
        console.print(f"It is being deleted{_leaving(page['leaving'])}{what}.")
    if "group" in page:
        print_group_of_pod(page["group"], console)
    if attempt is not None:
        _print_attempt(attempt, console, with_refusals=preview is None)
    if "decidedEarlier" in page:
        _print_decided_earlier(page["decidedEarlier"], console)
    if "madeRoom" in page:
        made_room = page["madeRoom"]
        verb = "is being made" if page.get("victimsLeft") else "was made"
        console.print(f"\nRoom {verb} for it by attempt {made_room['number']} at {made_room['at']}")
        _print_preemption(made_room, console)
    if page.get("victimsLeft"):
        _print_victims_left(page, console)
    weights = page.get("weights", {})
    if preview is not None:
        _print_preview(preview, weights, console)
    if "alternatives" in page:
        _print_alternatives(page["alternatives"], weights, console)
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


def _print_victims_left(page: dict[str, Any], console: Console) -> None:
    left = page["victimsLeft"]
    console.print(f"\nVictims that are still on {escape(page['nominatedNode'])}: {len(left)}")
    for victim in left[:10]:
        what = f"is being deleted{_leaving(victim)}" if "deletedAt" in victim else "is not deleted yet"
        console.print(f"  {escape(victim['pod'])} {what}")


def _leaving(page: dict[str, Any]) -> str:
    """Until when a pod that is being deleted may take to end, and what keeps it."""
    kept = f", kept by {escape(', '.join(page['finalizers']))}" if page["finalizers"] else ""
    return f", with time until {page['deletedAt']}{kept}"


def print_workload(page: dict[str, Any], console: Console) -> None:
    """Print a workload's page: where its pods are, for which reasons the others wait, and one of them in full."""
    placed, waiting = page["placed"], page["pods"] - page["placed"]
    console.print(f"[bold]{escape(page['workload'])}[/bold]  {placed} of {page['pods']} pods have a node")
    if page["nodes"]:
        listed = ", ".join(f"{escape(node)} {count}" for node, count in page["nodes"].items())
        console.print(f"  {listed}{', …' if page['nodeCount'] > len(page['nodes']) else ''}")
    if not waiting:
        return
    rows = table("Pods", "Place", "Rejected by", "Why")
    for group in page["waiting"]:
        rows.add_row(str(group["count"]), group["place"], escape(group["rejectedBy"]), escape(group["message"]))
    console.print(rows)
    if page.get("example"):
        console.print("One of them:")
        print_why(page["example"], console)


def _print_decided_earlier(earlier: dict[str, str], console: Console) -> None:
    started, scheduled = earlier["startedAt"], earlier["scheduledAt"]
    # Both are in whole seconds. If they are equal, an earlier scheduler placed the pod: this one would remember it.
    if scheduled > started:
        text = f"It got its node at {scheduled}; that attempt is not remembered here any more."
    else:
        when = f" at {scheduled}" if scheduled else ""
        text = f"It got its node{when}, before this scheduler started at {started}: that attempt is not known here."
    console.print(f"\n{text}")


def _print_attempt(attempt: dict[str, Any], console: Console, *, with_refusals: bool) -> None:
    counts = f"{attempt['feasibleNodes']} of {attempt['nodes']} nodes fit"
    text = (
        f"\nAttempt {attempt['number']} at {attempt['at']}: [bold]{attempt['result'] or 'under way'}[/bold], {counts}"
    )
    console.print(text + (f", node {escape(attempt['node'])}" if attempt["node"] else ""))
    if attempt["message"]:
        console.print(f"  {escape(attempt['message'])}")
    # A preview says the same of the present, with more detail.
    if with_refusals and attempt.get("refusals"):
        rows = table("Refused by", "Nodes", "Why", "Which")
        for entry in attempt["refusals"]:
            rows.add_row(entry["plugin"], str(entry["count"]), reasons(entry), names(entry["nodes"]))
        console.print(rows)
    if attempt.get("scores"):
        print_scores(attempt["scores"][:10], {}, console)
    # A successful preemption is shown separately, since later attempts replace it.
    found = attempt.get("preemption")
    if found is not None and not found["nominatedNode"] and found["message"] not in attempt["message"]:
        _print_preemption(found, console)


def print_scores(scores: list[dict[str, Any]], weights: dict[str, int], console: Console) -> None:
    """Print nodes with their totals and the plugins' weighted parts, a row a plugin: names as configurations have
    them."""
    plugins = list(dict.fromkeys(plugin for entry in scores for plugin in entry["scores"]))
    for start in range(0, len(scores), NODES_A_TABLE):
        part = scores[start : start + NODES_A_TABLE]
        rows = table("Score, weighted", *(escape(entry["node"]) for entry in part), right=True)
        for plugin in plugins:
            weight = f" ×{weights[plugin]}" if plugin in weights else ""
            rows.add_row(f"{escape(plugin)}{weight}", *(str(entry["scores"].get(plugin, "")) for entry in part))
        rows.add_row("[bold]Total[/bold]", *(f"[bold]{entry['total']}[/bold]" for entry in part))
        console.print(rows)


def _print_alternatives(page: dict[str, Any], weights: dict[str, int], console: Console) -> None:
    """The other nodes, as they are now."""
    console.print(f"\nNow, if it were not placed yet: {page['feasibleNodes']} of {page['nodes']} nodes would fit")
    if page.get("message"):
        console.print(f"  {escape(page['message'])}")
    listed = page["best"][:NODES_A_TABLE]
    if "total" in page["own"] and page["own"] not in listed:
        listed = [*listed[:-1], page["own"]]
    asked = page.get("asked")
    if asked and "total" in asked and asked["node"] not in [entry["node"] for entry in listed]:
        listed = [*listed[:-1], asked]
    if listed:
        print_scores(listed, weights, console)
    if asked:
        _print_asked(asked, console)


def _print_asked(asked: dict[str, Any], console: Console) -> None:
    """One node in full."""
    node = escape(asked["node"])
    if asked.get("unknown"):
        console.print(f"\nNode {node} is not known here.")
        return
    if not asked.get("refusals"):
        place = f", number {asked['rank']} by its score" if "rank" in asked else ""
        console.print(f"\nNode {node}: [green]fits[/green]{place}")
        return
    beside = f" beside {escape(', '.join(asked['beside']))}, nominated to it" if asked.get("beside") else ""
    console.print(f"\nNode {node}: [red]refused[/red]{beside}")
    _print_refusals(asked["refusals"], console, of_one=True)


def _print_refusals(refusals: list[dict[str, Any]], console: Console, *, of_one: bool = False) -> None:
    """Every plugin that refuses, with what is behind it for each group of nodes."""
    for entry in refusals:
        if entry.get("wholePod") or of_one:
            console.print(f"  [bold]{entry['plugin']}[/bold]: {reasons(entry)}")
        else:
            only = f", {entry['only']} of them alone" if entry["only"] else ""
            plural = "s" * (entry["count"] != 1)
            console.print(
                f"  [bold]{entry['plugin']}[/bold] refuses {entry['count']} node{plural}{only}: {reasons(entry)}"
            )
        for group in entry.get("details", ()):
            where = "" if of_one else f"  ({group['count']}: {names(group['nodes'], 3)})"
            for place, line in enumerate(group["lines"]):
                console.print(f"    {escape(line)}{where if place == len(group['lines']) - 1 else ''}")


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
    where = f", {finding['count']} node{'s' * (finding['count'] != 1)}: {', '.join(finding['nodes'])}{more}"
    console.print(f"\n{escape(finding['plugin'] + where * (finding['count'] > 0))}")
    for line in finding["lines"]:
        console.print(f"  {escape(line)}")


def _print_preview(preview: dict[str, Any], weights: dict[str, int], console: Console) -> None:
    # A member starts with its group: that it fits by itself says nothing about when.
    when = "Now, by itself" if preview.get("isOfGroup") else "Now"
    if preview.get("unaskedExtenders"):
        when += f", without asking {names(preview['unaskedExtenders'])}"
    refusals = preview.get("refusals", ())
    if preview["fits"]:
        console.print(f"\n{when}: it would fit")
    else:
        console.print(
            f"\n{when}: no node of {preview['nodes']} fits" + (". Every plugin that refuses:" if refusals else "")
        )
    if refusals:
        _print_refusals(list(refusals), console)
    beside = preview.get("besideNominated")
    if beside:
        console.print(
            f"  {beside['count']} more only beside the pods that are nominated there: {names(beside['nodes'])}"
        )
    if "asked" in preview:
        _print_asked(preview["asked"], console)
    scored = sorted((entry for entry in preview.get("listed", ()) if "total" in entry), key=lambda one: -one["total"])
    if scored:
        print_scores(scored[:NODES_A_TABLE], weights, console)


def _print_story(story: dict[str, Any], console: Console) -> None:
    console.print(
        f"\nQueue: [bold]{story['place']}[/bold] since {story['since']}, {story['attempts']} attempt(s)"
        + (f", backs off until {story['backsOffUntil']}" if "backsOffUntil" in story else "")
        + (", no event has woken it since its last attempt" if story["wasFlushed"] else "")
    )
    if story["gatedBy"]:
        console.print(
            f"  not tried while it is held back by {story['gatedBy']}: {escape(', '.join(story['gatingReasons']))}"
        )
    if "binding" in story:
        console.print(f"  its binding to {escape(story['node'])} is under way: {story['binding']}")
    for wait in story.get("bindingWaits", ()):
        what = f", {escape(wait['doing'])}" if wait["doing"] else ""
        until = f", until {wait['until']} at the latest" if wait["until"] else ""
        console.print(f"  it waits for {wait['point']} of {escape(wait['plugin'])}{what}{until}")
    for wish in story.get("wokenBy", ()):
        console.print(f"  {wish['plugin']} waits for  {escape('; '.join(merged(wish['events'])))}")
    if "nextTry" in story:
        console.print(f"  without any of that it is tried again at {story['nextTry']}")
