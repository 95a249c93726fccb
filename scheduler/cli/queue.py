"""``tandem queue``: every pending pod, by workload and by the reason for which it waits."""

from __future__ import annotations

import time
from collections import Counter
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

from scheduler.cli.asking import Asking, Source, show_page
from scheduler.cli.complaint import complain, remark
from scheduler.cli.connection import Unanswered
from scheduler.cli.context_namespace import context_namespace
from scheduler.cli.groups import print_waiting_groups
from scheduler.cli.options import option, seconds, switch
from scheduler.cli.printable import printable_page
from scheduler.cli.tables import age, merged, table
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.page_limits import MAX_WAITING_LISTED

MAX_ROWS: Final = 500
"""Groups, or pods with ``--pods``, that are printed."""
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
    watch: bool = switch("--watch", "-w", help="Print it again whenever it has changed.")
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
    path = "/debug/queue" + (f"?{urlencode(asked)}" if asked else "")
    print_page = partial(print_pods if options.pods else print_queue, now=source.at)
    if options.watch:
        if source.at is not None:
            raise ConfigurationError([Fault("--watch", "what --from names does not change")])
        return _watch(path, source, lambda page: print_page(page, Console()), options.interval)
    return show_page(path, source, options.as_json, print_page)


def print_queue(page: dict[str, Any], console: Console, now: datetime | None = None) -> None:
    """Print the number of pods in each part of the queue, then the pods by workload and reason, largest group first."""
    if not _print_counts(page, console):
        return
    now = datetime.now(UTC) if now is None else now
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for story in page["pods"]:
        groups.setdefault(_group_of(story), []).append(story)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    # One call, wrapped here, without the search for numbers and paths to colour: rich took longer than all the rest.
    lines: list[str] = []
    for (who, place, _, _), stories in ordered[:MAX_ROWS]:
        lines += _lines_of(who, place, stories, now, console.width)
    console.print("\n".join(lines), highlight=False, soft_wrap=True)
    _print_rest(page, console, len(ordered), "groups")


def _lines_of(who: str, place: str, stories: list[dict[str, Any]], now: datetime, width: int) -> Iterator[str]:
    """A group: how many, whose, where, since when, why, and one of them."""
    begin = f"{len(stories)} pod{'s' * (len(stories) != 1)}  "
    end = f"  {place}, oldest {age(min(story['since'] for story in stories), now)}"
    yield ""
    if len(begin + who + end) <= width:
        yield f"{begin}[bold]{escape(who)}[/bold]{end}"
    else:
        yield from map(escape, wrap(begin + who + end, width, subsequent_indent="  "))
    rest = _why(stories[0])
    if stories[0]["workload"]:
        rest.append(f"{'such as ' if len(stories) > 1 else ''}{stories[0]['pod']}")
    for line in rest:
        yield from map(escape, wrap(line, width, initial_indent="  ", subsequent_indent="  "))


def print_pods(page: dict[str, Any], console: Console, now: datetime | None = None) -> None:
    """Print the number of pods in each part of the queue, then each pod."""
    if not _print_counts(page, console):
        return
    now = datetime.now(UTC) if now is None else now
    rows = table("Pod", "Place", "Age", "Tries", "Rejected by, woken by")
    for story in page["pods"][:MAX_ROWS]:
        events = merged(event for wish in story.get("wokenBy", ()) for event in wish["events"])
        rows.add_row(
            escape(story["pod"]),
            story["place"] + (f" ({story['binding']})" if "binding" in story else ""),
            age(story["since"], now),
            str(story["attempts"]),
            escape(_rejectors(story)) + (f"\n[dim]{escape('; '.join(events))}[/dim]" if events else ""),
        )
    console.print(rows)
    _print_rest(page, console, len(page["pods"]), "pods")


def _print_counts(page: dict[str, Any], console: Console) -> bool:
    """Whether pods are listed below the counts."""
    print_waiting_groups(page.get("groups", []), console)
    console.print("  ".join(f"{place} [bold]{count}[/bold]" for place, count in page["counts"].items()))
    if not page["pods"]:
        console.print("No pod waits." if not sum(page["counts"].values()) else "None of these pods is asked for.")
    return bool(page["pods"])


def _print_rest(page: dict[str, Any], console: Console, count: int, called: str) -> None:
    if count > MAX_ROWS:
        console.print(f"  … and {count - MAX_ROWS} more {called}")
    if len(page["pods"]) >= MAX_WAITING_LISTED:
        console.print(f"  These are the first {MAX_WAITING_LISTED} pods of the queue.")


def _group_of(story: dict[str, Any]) -> tuple[str, ...]:
    namespace, _, name = story["pod"].partition("/")
    who = f"{namespace}/{story['workload'].partition('/')[2] or name}"
    kind = story["workload"].partition("/")[0]
    return f"{who} ({kind})" if kind else who, story["place"], _rejectors(story), story["message"]


def _rejectors(story: dict[str, Any]) -> str:
    if story["gatedBy"]:
        return f"{story['gatedBy']}: {', '.join(story['gatingReasons'])}"
    return ", ".join(sorted({*story["rejectedBy"], *story["pendingOn"]}))


def _why(story: dict[str, Any]) -> list[str]:
    """Who rejected the pod, and the first sentence of its last attempt's message."""
    return [line for line in (_rejectors(story), story["message"].partition(". ")[0]) if line]


def _watch(path: str, source: Source, print_page: Callable[[dict[str, Any]], None], interval_seconds: float) -> int:
    """Print the page whenever what it says has changed, until it is interrupted. A failed request is named once, and
    the next one is tried."""
    shown: Any = None
    while True:
        try:
            page = printable_page(source.fetch(path, None))
        except (Unanswered, msgspec.DecodeError, RecursionError) as error:
            if shown != str(error):
                complain(str(error))
            shown = str(error)
        else:
            summary = (page["counts"], page.get("groups"), Counter(map(_group_of, page["pods"])))
            if shown != summary:
                print(f"--- {datetime.now(UTC):%H:%M:%S}", flush=True)
                print_page(page)
            shown = summary
        time.sleep(interval_seconds)
