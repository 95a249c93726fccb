"""The help pages: of all commands, of one, and of ``tandem run``, made from the tables of commands and flags."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

from scheduler.cli.commands import BY_NAME, COMMANDS, Command
from scheduler.cli.complaint import complain
from scheduler.cli.flags import FLAGS, Flag
from scheduler.cli.options import Declared, Options, Takes, declared_by
from scheduler.cli.tables import terminal
from scheduler.cli.version import KUBERNETES
from scheduler.config.suggestions import did_you_mean

EXIT_CODES: Final[Mapping[int, str]] = {
    0: "done, or stopped by a signal",
    1: "a wrong configuration, wrong flags, a lost Lease, or a question that could not be answered (the reason is on "
    "standard error)",
    2: "a replay that agrees and proves nothing",
    130: "interrupted",
    143: "a demo that was terminated",
}


def show_help(name: str, console: Console | None = None) -> None:
    """Print the commands. ``name``: what the user typed to get here."""
    console = console or terminal()
    console.print(f"\n [bold]Usage:[/bold] {name} COMMAND [OPTIONS]\n")
    console.print(
        f" Tandem: a second scheduler for Kubernetes that decides exactly as kube-scheduler {KUBERNETES}, and explains "
        "it. Pods choose it by [bold]schedulerName: tandem-scheduler[/bold].\n"
    )
    rows = Table.grid(padding=(0, 2, 0, 1))
    for command in COMMANDS:
        rows.add_row(f"[bold cyan]{command.name}[/bold cyan]", command.help)
    console.print(_titled("Commands", rows))
    codes = "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
    console.print(f" {name} COMMAND --help shows the options of a command. Exit codes: {codes}.\n")


def refuse_command(word: str, name: str) -> int:
    """Complain about a word that is no command; returns the exit code."""
    complain(f"No such command: \"{word}\"{did_you_mean(word, BY_NAME)}. Try '{name} --help' for help.")
    return 1


def show_command_help(command: Command, name: str, console: Console | None = None) -> None:
    """Print what a command does, and its options, a panel for each class that declares some."""
    console = console or terminal()
    kind = Options if command.reads_words else command.options()
    declared = [one for _, _, one in declared_by(kind)]
    arguments = [one.metavar for one in declared if one.takes is Takes.ARGUMENT]
    usage = [name, command.name, *(["[OPTIONS]"] if len(declared) > len(arguments) else []), *arguments]
    console.print(f"\n [bold]Usage:[/bold] {escape(' '.join(usage))}\n")
    console.print(Padding(inspect.getdoc(command.function()) or command.help, (0, 1)))
    console.print()
    for title, entries in _sections(kind):
        rows = [
            (_written(one) + (f" [yellow]{escape(one.metavar)}[/yellow]" if one.flags else ""), default, one.help)
            for default, one in entries
        ]
        console.print(_panel(title, rows))


def _sections(kind: type[Options]) -> Iterator[tuple[str, list[tuple[str, Declared]]]]:
    """Headings with their options, the command's own first."""
    known = {name: (str(default) if one.shows_default else "", one) for name, default, one in declared_by(kind)}
    for each in kind.__mro__:
        own = [known[name] for name in inspect.get_annotations(each) if name in known]
        if own and issubclass(each, Options):
            yield each.SECTION, own


def _written(one: Declared) -> str:
    flags = [*one.flags, *(f"--no-{flag.removeprefix('--')}" for flag in one.flags if one.takes is Takes.EITHER)]
    return f"[bold cyan]{escape(', '.join(flags or [one.metavar]))}[/bold cyan]"


def show_run_help() -> None:
    """Print the flags that work, by section, and the names of those that are only accepted."""
    console = terminal()
    console.print("\n [bold]Usage:[/bold] tandem run [FLAGS]\n")
    console.print(
        " Schedule pods until stopped (SIGTERM or SIGINT: binds under way are settled, the Lease is given back).\n"
        " Flags are those of kube-scheduler; --flag=value and --flag value, --switch and --switch=false.\n"
    )
    for section in dict.fromkeys(flag.section for flag in FLAGS if flag.section):
        rows = [
            (
                f"[bold cyan]{_spelling(flag)}[/bold cyan] [yellow]{flag.type.value}[/yellow]",
                flag.default,
                escape(flag.help),
            )
            for flag in FLAGS
            if flag.section == section
        ]
        console.print(_panel(section, rows))
    names = "  ".join(f"--{flag.name}" for flag in FLAGS if flag.no_meaning)
    title = "kube-scheduler's flags without effect here (a warning says why)"
    console.print(Panel(names, title=title, title_align="left", border_style="dim", style="dim"))


def _panel(title: str, rows: Iterable[tuple[str, str, str]]) -> Panel:
    """A panel of flags: how each is written, its default, and its help below."""
    table = Table.grid(padding=(0, 0, 0, 1))
    for written, default, text in rows:
        table.add_row(written + (f"[dim]  default: {escape(default)}[/dim]" if default else ""))
        table.add_row(Padding(text, (0, 0, 0, 6)))
    return _titled(title, table)


def _titled(title: str, table: Table) -> Panel:
    return Panel(table, title=title, title_align="left", border_style="dim")


def _spelling(flag: Flag) -> str:
    return flag.spelling if flag.short != flag.name else f"-{flag.name}, --{flag.name}"
