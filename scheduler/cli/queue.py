"""``tandem queue``: every pending pod, by workload and by the reason for which it waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from textwrap import wrap
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

import msgspec
from rich.console import Console
from rich.markup import escape

from scheduler.cli.asking import OTHER_FORM, Asking, Source, other_form, print_standby, show_page
from scheduler.cli.complaint import complain, remark
from scheduler.cli.connection import Unanswered
from scheduler.cli.context_namespace import context_namespace
from scheduler.cli.groups import print_waiting_groups
from scheduler.cli.options import option, seconds, switch
from scheduler.cli.printable import printable_page
from scheduler.cli.tables import age, merged, table, terminal
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.page_limits import MAX_WAITING_LISTED
from scheduler.objects.salvage import reason_of

MAX_ROWS: Final = 500
"""Pods that ``--pods`` prints."""
WATCH_SECONDS: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class QueueOptions(Asking):
    """The options of ``tandem queue``."""

    SECTION: ClassVar[str] = "Options"
    namespace: str = option(
        "--namespace", "-n", metavar="NAMESPACE", help="Only its pods; by default the context's, if it has one."
    )
    all_namespaces: bool = switch("--all-namespaces", "-A", help="The pods of all namespaces.")
    profile: str = option("--profile", metavar="NAME", help="Only pods of this scheduler name.")
    plugin: str = option("--plugin", metavar="NAME", help="Only pods that this plugin rejected.")
    pods: bool = switch("--pods", help="Pod by pod, in the queue's order.")
    watch: bool = switch("--watch", "-w", help="Print it again whenever it has changed; with --json, a line each time.")
    interval: float = option(
        "--interval",
        metavar="SECONDS",
        help="How often --watch asks.",
        default=WATCH_SECONDS,
        reads=seconds(0.01),
        shows=True,
    )

    def asked_namespace(self) -> str:
        """The namespace that is given, else the context's; "" for all. Raises ConfigurationError."""
        if self.namespace and self.all_namespaces:
            raise ConfigurationError([Fault("--namespace", "can't be given together with --all-namespaces")])
        if self.namespace or self.all_namespaces or self.place:
            return self.namespace
        namespace = context_namespace(self.access())
        if namespace:
            remark(f"these are the pods of namespace {namespace}, the kubeconfig context's; -A shows all")
        return namespace


def queue(options: QueueOptions) -> int:
    """Show the pending pods: where, since when, which plugins rejected them, and which events would wake them.

    Groups of pods come first: how many of how many are there."""
    source = options.source()
    wanted = {"namespace": options.asked_namespace(), "profile": options.profile, "plugin": options.plugin}
    asked = {name: word for name, word in wanted.items() if word}
    is_grouped = not (options.pods or options.as_json)
    asked |= {"grouped": "true"} if is_grouped else {}
    path = "/debug/queue" + (f"?{urlencode(asked)}" if asked else "")
    print_page = partial(print_queue if is_grouped else print_pods, now=source.at)
    if options.watch:
        if source.at is not None:
            raise ConfigurationError([Fault("--watch", "what --from names does not change")])
        return _watch(path, source, None if options.as_json else print_page, options.interval)
    return show_page(path, source, options.as_json, print_page)


def print_queue(page: dict[str, Any], console: Console, now: datetime | None = None) -> None:
    """Print the number of pods in each part of the queue, then the pods by workload and reason, largest group first:
    the grouped page."""
    if not _print_counts(page, bool(page["waiting"]), console):
        return
    now = datetime.now(UTC) if now is None else now
    # One call, wrapped here, without the search for numbers and paths to colour: rich took longer than all the rest.
    width = console.width
    lines: list[str] = []
    for group in page["waiting"]:
        lines += _lines_of(group, now, width)
    console.print("\n".join(lines), highlight=False, soft_wrap=True)
    _print_rest(page["workloads"] - len(page["waiting"]), "groups", page["pods"], console)


def _lines_of(group: dict[str, Any], now: datetime, width: int) -> Iterator[str]:
    """The lines about a group: how many, whose, where, since when, why, and one of them."""
    count, who = group["count"], _name_of(group)
    begin = f"{count} pod{'s' * (count != 1)}  "
    end = f"  {group['place']}, oldest {age(group['pendingSince'], now)}"
    yield ""
    if len(begin + who + end) <= width:
        yield f"{begin}[bold]{escape(who)}[/bold]{end}"
    else:
        yield from map(escape, wrap(begin + who + end, width, subsequent_indent="  "))
    rest = _why(group)
    if group["workload"]:
        rest.append(f"{'such as ' if count > 1 else ''}{group['pod']}")
    for line in rest:
        yield from map(escape, wrap(line, width, initial_indent="  ", subsequent_indent="  "))


def print_pods(page: dict[str, Any], console: Console, now: datetime | None = None) -> None:
    """Print the number of pods in each part of the queue, then each pod."""
    if not _print_counts(page, bool(page["pods"]), console):
        return
    now = datetime.now(UTC) if now is None else now
    rows = table("Pod", "Place", "Age", "Tries", "Rejected by, woken by")
    for story in page["pods"][:MAX_ROWS]:
        events = merged(event for wish in story.get("wokenBy", ()) for event in wish["events"])
        rows.add_row(
            escape(story["pod"]),
            story["place"] + (f" ({story['binding']})" if "binding" in story else ""),
            age(story["pendingSince"], now),
            str(story["attempts"]),
            escape(_rejectors(story)) + (f"\n[dim]{escape('; '.join(events))}[/dim]" if events else ""),
        )
    console.print(rows)
    _print_rest(len(page["pods"]) - MAX_ROWS, "pods", len(page["pods"]), console)


def _print_counts(page: dict[str, Any], has_pods: bool, console: Console) -> bool:
    """Print the number of pods in each part of the queue; returns whether pods are listed below them."""
    print_waiting_groups(page.get("groups", []), console)
    console.print("  ".join(f"{place} [bold]{count}[/bold]" for place, count in page["counts"].items()))
    if not has_pods:
        console.print("No pod waits." if not sum(page["counts"].values()) else "No pending pod matches.")
    return has_pods


def _print_rest(more: int, called: str, listed: int, console: Console) -> None:
    if more > 0:
        console.print(f"  … and {more} more {called}")
    if listed >= MAX_WAITING_LISTED:
        console.print(f"  These are the first {MAX_WAITING_LISTED} pods of the queue.")


def _name_of(group: dict[str, Any]) -> str:
    namespace, _, name = group["pod"].partition("/")
    kind, _, workload = group["workload"].partition("/")
    return f"{namespace}/{workload} ({kind})" if kind else f"{namespace}/{name}"


def _rejectors(story: dict[str, Any]) -> str:
    if story["gatedBy"]:
        return f"{story['gatedBy']}: {', '.join(story['gatingReasons'])}"
    return ", ".join(sorted({*story["rejectedBy"], *story.get("pendingOn", ())}))


def _why(group: dict[str, Any]) -> list[str]:
    """Who rejected its pods, and the first sentence of the last attempt's message."""
    return [line for line in (_rejectors(group), group["message"].partition(". ")[0]) if line]


def _summary_of(page: dict[str, Any]) -> Any:
    """What the page says, without its times and numbers of attempts."""
    listed = page.get("waiting", page.get("pods", ()))
    said = [(one["pod"], one.get("count"), one["place"], _rejectors(one), one["message"]) for one in listed]
    return page["counts"], page.get("groups"), page.get("isLeading"), said


def _watch(
    path: str, source: Source, print_page: Callable[[dict[str, Any], Console], None] | None, interval_seconds: float
) -> int:
    """Print the page whenever what it says has changed, until it is interrupted; without ``print_page`` as JSON, one
    document a line. A failed request is named once, and the next one is tried."""
    shown: Any = None
    # Ends the command, without a traceback, once the reader of its output has closed it.
    console = terminal()
    while True:
        try:
            body = source.fetch(path, None)
            page = printable_page(body)
            summary = _summary_of(page)
            if shown != summary:
                if print_page is None:
                    console.out(msgspec.json.format(body, indent=-1).decode(), highlight=False)
                else:
                    console.print(f"--- {datetime.now(UTC):%H:%M:%S}", highlight=False)
                    print_standby(page, console)
                    print_page(page, console)
            shown = summary
            text = ""
        except (Unanswered, msgspec.DecodeError, RecursionError) as error:
            text = reason_of(error)
        except OTHER_FORM:
            text = other_form(path)
        if text:
            if shown != text:
                complain(text)
            shown = text
        time.sleep(interval_seconds)
