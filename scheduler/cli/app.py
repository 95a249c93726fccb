"""The command line: what ``tandem --help`` shows. Each command is in the file of its name.

Exit codes: 0 done, or stopped by a signal; 1 for a wrong configuration (every fault on standard error), wrong flags, a
lost Lease, or a question that could not be answered.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import typer

from scheduler.cli.commands import BY_NAME, COMMANDS
from scheduler.cli.version import KUBERNETES


def app(loaded: Container[str] = BY_NAME) -> typer.Typer:
    """The command line. Only the commands in ``loaded`` can run; ``--help`` shows the others, too."""
    made = typer.Typer(
        name="tandem",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        epilog=(
            "Exit codes: 0 done, or stopped by a signal; 1 a wrong configuration, wrong flags, a lost Lease, or a "
            "question that could not be answered (the reason is on standard error); 130 interrupted; 143 a demo that "
            "was terminated."
        ),
        help=(
            f"Tandem: a second scheduler for Kubernetes that decides exactly as kube-scheduler {KUBERNETES}, and "
            "explains it. Pods choose it by [bold]schedulerName: tandem-scheduler[/bold]."
        ),
    )
    for command in COMMANDS:
        can_run = command.name in loaded and not command.reads_words
        made.command(command.name, help=command.help)(command.load() if can_run else _not_loaded)
    return made


def run_app(words: list[str], name: str = "tandem") -> int:
    """Run the command line; returns the exit code. ``name``: what the user typed to get here, for help and errors."""
    try:
        answer: Any = typer.main.get_command(app(words[:1])).main(args=words, prog_name=name, standalone_mode=False)
    except Exception as error:
        # typer's own errors can show themselves; everything else is the caller's.
        if not hasattr(error, "show"):
            raise
        error.show()
        return 1
    return answer if isinstance(answer, int) else 0


def _not_loaded() -> None:
    raise AssertionError("run by the entry point, or not the command that was given")
