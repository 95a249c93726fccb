"""The help page of ``tandem run``, made from the table of flags."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

from scheduler.cli.flags import FLAGS, Flag


def show_run_help(console: Console | None = None) -> None:
    """Print the flags that work, by section, and the names of those that are only accepted."""
    console = console or Console()
    console.print("\n [bold]Usage:[/bold] tandem run [FLAGS]\n")
    console.print(
        " Schedule pods until stopped (SIGTERM or SIGINT: binds under way are settled, the Lease is given back).\n"
        " Flags are those of kube-scheduler; --flag=value and --flag value, --switch and --switch=false.\n"
    )
    for section in dict.fromkeys(flag.section for flag in FLAGS if flag.section):
        console.print(_panel(section, [flag for flag in FLAGS if flag.section == section]))
    names = "  ".join(f"--{flag.name}" for flag in FLAGS if flag.no_meaning)
    title = "Accepted from kube-scheduler's command line, without effect (a warning says why)"
    console.print(Panel(names, title=title, title_align="left", border_style="dim", style="dim"))


def _panel(title: str, flags: list[Flag]) -> Panel:
    table = Table.grid(padding=(0, 0, 0, 1))
    for flag in flags:
        default = f"[dim]  default: {escape(flag.default)}[/dim]" if flag.default else ""
        table.add_row(f"[bold cyan]{_spelling(flag)}[/bold cyan] [yellow]{flag.type.value}[/yellow]{default}")
        table.add_row(Padding(escape(flag.help), (0, 0, 0, 6)))
    return Panel(table, title=title, title_align="left", border_style="dim")


def _spelling(flag: Flag) -> str:
    return flag.spelling if flag.short != flag.name else f"-{flag.name}, --{flag.name}"
