"""The command line: what ``tandem --help`` shows. Each command is in the file of its name.

Exit codes: 0 done, or stopped by a signal; 1 for a wrong configuration (every fault on standard error), wrong flags, a
lost Lease, or a question that could not be answered.
"""

from __future__ import annotations

import sys
from typing import Any

import typer

from scheduler.cli.check_config import check_config
from scheduler.cli.demo import demo
from scheduler.cli.queue import queue
from scheduler.cli.replay import replay
from scheduler.cli.run import run
from scheduler.cli.snapshot import snapshot
from scheduler.cli.version import KUBERNETES, version
from scheduler.cli.why import why
from scheduler.errors import ConfigurationError

app = typer.Typer(
    name="tandem",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help=(
        f"Tandem: a second scheduler for Kubernetes that decides exactly as kube-scheduler {KUBERNETES}, and explains "
        "it. Pods choose it by [bold]schedulerName: tandem-scheduler[/bold]."
    ),
)
app.command(
    add_help_option=False,
    options_metavar="[FLAGS]",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)(run)
app.command("check-config")(check_config)
app.command()(version)
app.command()(why)
app.command()(queue)
app.command()(replay)
app.command()(snapshot)
app.command()(demo)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code. Errors that users can fix are shown without a traceback."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        answer: Any = typer.main.get_command(app).main(args=words, prog_name="tandem", standalone_mode=False)
    except ConfigurationError as error:
        for fault in error.faults:
            print(f"Error: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # typer's own errors can show themselves; everything else is a bug and keeps its traceback.
        if not hasattr(error, "show"):
            raise
        error.show()
        return 1
    return answer if isinstance(answer, int) else 0
