"""The demo's output: a live display on a terminal, plain lines elsewhere; in both cases a summary at the end."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from rich import box
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scheduler.objects.kinds import decode_as
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.resources import allocatable_of, requests_of
from scheduler.simulate.apiserver import Store
from scheduler.simulate.apiserver.kinds import NODES, PODS

Object = dict[str, Any]

_BAR: Final = 12
_OVER: Final = ("Succeeded", "Failed")
_MAX_WAITING_SHOWN: Final = 8


class DemoView:
    """Called at the begin and end of scenes. A context manager around the demo."""

    def __init__(self, console: Console, store: Store, scenes: int) -> None:
        self._console = console
        self._store = store
        self._scenes = scenes
        self._began = time.monotonic()
        self._seen: dict[str, str] = {}
        self.scene = 0
        """The number of the running scene, from 1."""

    def __enter__(self) -> DemoView:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def begin(self, title: str) -> None:
        self.scene += 1

    def refresh(self, queue: Object) -> None:
        for pod in self._store.list(PODS, "default"):
            node = pod["spec"].get("nodeName")
            if node and pod["metadata"]["uid"] not in self._seen:
                self._seen[pod["metadata"]["uid"]] = node
                self.bound(pod["metadata"]["name"], node)

    def bound(self, pod: str, node: str) -> None:
        """Called for a pod that was observed as bound."""

    def end(self, page: Object) -> None:
        """Called at the end of a scene. ``page``: the explanation of the scene's pod, {} without one."""

    @property
    def clock(self) -> str:
        return f"{time.monotonic() - self._began:5.1f} s"

    async def summarize(self, why: Callable[[str], Awaitable[Object]]) -> None:
        """Prints for every remaining pod where it is and why."""
        table = Table(box=box.SIMPLE_HEAD, title="What was bound where, and why", title_justify="left")
        for column in ("Pod", "Node", "Why"):
            table.add_column(column, overflow="fold")
        pods = self._store.list(PODS, "default")
        for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
            if pod["status"].get("phase") in _OVER:
                continue
            name = pod["metadata"]["name"]
            story = short_story(await why(f"default/{name}"))
            table.add_row(name, pod["spec"].get("nodeName") or "[yellow]waits[/yellow]", escape(story))
        self._console.print(table)
        over = sum(pod["status"].get("phase") == "Succeeded" for pod in pods)
        self._console.print(
            f"{len(self._seen)} pods were bound in {self.clock.strip()} of demo, {over} of them have finished.",
            highlight=False,
        )


class PlainView(DemoView):
    """Plain lines, for logs and pipes."""

    def begin(self, title: str) -> None:
        super().begin(title)
        self._print(f"[{self.clock}] {self.scene}/{self._scenes} {title}")

    def bound(self, pod: str, node: str) -> None:
        self._print(f"[{self.clock}]     {pod} -> {node}")

    def end(self, page: Object) -> None:
        if page:
            self._print(f"[{self.clock}]     why {_subject(page)}: {short_story(page)}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class LiveView(DemoView):
    """A live display, redrawn several times a second."""

    def __init__(self, console: Console, store: Store, scenes: int) -> None:
        super().__init__(console, store, scenes)
        self._titles: list[str] = []
        self._story = ""
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.__exit__(None, None, None)

    def begin(self, title: str) -> None:
        super().begin(title)
        self._titles.append(title)

    def end(self, page: Object) -> None:
        if page:
            self._story = f"[bold]{escape(_subject(page))}[/bold]: {escape(short_story(page))}"

    def refresh(self, queue: Object) -> None:
        super().refresh(queue)
        lines = [Text.from_markup(f"[green]✓[/green] [dim]{escape(title)}[/dim]") for title in self._titles[:-1]]
        lines += [Text.from_markup(f"[yellow]▶[/yellow] [bold]{escape(title)}[/bold]") for title in self._titles[-1:]]
        parts: list[Any] = [
            Panel(Group(*lines), title=f"Tandem demo {self.scene}/{self._scenes}", subtitle=self.clock),
            Columns([self._nodes(), _waiting_table(queue)], padding=(0, 4)),
        ]
        if self._story:
            parts.append(Panel(self._story, title="Why"))
        self._live.update(Group(*parts))

    def _nodes(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, title="Nodes", title_justify="left")
        for column in ("Node", "Zone", "CPU", "Pods"):
            table.add_column(column)
        pods: dict[str, list[Object]] = {}
        for pod in self._store.list(PODS):
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in _OVER:
                pods.setdefault(pod["spec"]["nodeName"], []).append(pod)
        for node in self._store.list(NODES):
            name = node["metadata"]["name"]
            here = pods.get(name, [])
            used = sum(requests_of(decode_as(Pod, msgspec.json.encode(pod))).milli_cpu for pod in here)
            offered = allocatable_of(decode_as(Node, msgspec.json.encode(node))).milli_cpu
            zone = node["metadata"]["labels"].get("topology.kubernetes.io/zone", "")
            table.add_row(name, zone, _bar(used, offered), _by_app(here))
        return table


def _subject(page: Object) -> str:
    """The namespace/name of a page's pod or group."""
    subject: str = page.get("pod") or page["group"]
    return subject


def short_story(page: Object) -> str:
    """A summary of a page in one sentence: why the pod, or the group, is where it is, or why it waits."""
    attempt = page.get("attempt") or {}
    if not attempt:
        return "not tried yet"
    if "pod" not in page:
        wanted = [
            member["message"]
            for member in page["members"]
            if "waiting for minCount pods" not in member.get("message", "")
        ]
        found = f"{attempt['found']} of {attempt['tried']} pods found a node"
        return f"{attempt['result']}, {found}; {'; '.join(filter(None, wanted))}"
    if "madeRoom" in page:
        made_room = page["madeRoom"]
        victims = ", ".join(victim["pod"] for victim in made_room["victims"])
        return f"preempted {victims} on {made_room['nominatedNode']}: {made_room['criterion']}"
    if page.get("node"):
        text = f"{attempt['feasibleNodes']} of {attempt['nodes']} nodes fit"
        scores = attempt.get("scores")
        if scores:
            best = scores[0]
            leading = sorted(best["scores"].items(), key=lambda entry: -entry[1])[:2]
            text += f", best score {best['total']} ({', '.join(f'{plugin} {score}' for plugin, score in leading)})"
        if attempt["number"] > 1:
            text += f", found at attempt {attempt['number']}"
        return "; ".join((text, *_details(page)))
    return "; ".join((str(attempt["message"]), *_details(page)))


def _details(page: Object) -> list[str]:
    """What plugins say of the largest group of nodes; of a placed pod, of its node."""
    findings = page.get("findings") or ()
    return list(findings[0]["lines"]) if findings else []


def _name(part: Object) -> str:
    name: str = part["pod"].partition("/")[2]
    return name


def _fate(left: Object) -> str:
    """What becomes of a pod of a drained node that goes to no other one."""
    if left["stays"]:
        return "would stay"
    if left["why"] == "is being deleted":
        return "are being deleted anyway"
    return "would end for good, since no controller makes them again"


def drain_in_words(answer: Object) -> str:
    """Where a drained node's pods would go, and which would wait, in a sentence."""
    moved = [one for one in answer.get("placements", []) if one["origin"] == "evicted"]
    going = [f"{_name(one)} to {one['node']}" for one in moved if one.get("node")]
    left = answer.get("left", [])
    # All pods of the node: those that end or stay are not among the placements.
    count = len(moved) + len(left)
    parts = [f"{len(going)} of its {count} pods would move" + (f" ({', '.join(going)})" if going else "")]
    becomes: dict[str, list[str]] = {}
    for one in left:
        becomes.setdefault(_fate(one), []).append(_name(one))
    parts += [f"{fate}: {', '.join(names)}" for fate, names in becomes.items()]
    blocked = [budget["budget"] for budget in answer.get("budgets", [])]
    parts.append(f"budgets in the way: {', '.join(blocked)}" if blocked else "no budget is in the way")
    return f"{'; '.join(parts)}. {answer['pending']} pod{'s' * (answer['pending'] != 1)} would wait."


def _waiting_table(queue: Object) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Queue", title_justify="left")
    for column in ("Pod", "Place", "Rejected by"):
        table.add_column(column)
    pods = queue.get("pods", [])
    for story in pods[:_MAX_WAITING_SHOWN]:
        name = story["pod"].partition("/")[2]
        table.add_row(name, story["place"], ", ".join(story["rejectedBy"]) or story["gatedBy"])
    if len(pods) > _MAX_WAITING_SHOWN:
        table.add_row(f"… {len(pods) - _MAX_WAITING_SHOWN} more", "", "")
    return table


def _bar(used: int, offered: int) -> Text:
    filled = round(_BAR * used / offered) if offered else 0
    color = "red" if used >= offered else "green"
    return Text.assemble(("█" * filled, color), ("░" * (_BAR - filled), "dim"), f" {used / 1000:g}/{offered / 1000:g}")


def _by_app(pods: list[Object]) -> str:
    counts: dict[str, int] = {}
    for pod in pods:
        app = (pod["metadata"].get("labels") or {}).get("app") or pod["metadata"]["name"]
        counts[app] = counts.get(app, 0) + 1
    return ", ".join(f"{app}×{count}" if count > 1 else app for app, count in sorted(counts.items()))
