"""The command line: what ``tandem --help`` shows. Each command's work is in the file that its name points to.

Exit codes: 0 done, or stopped by a signal; 1 for a wrong configuration (every fault on standard error), wrong flags, a
lost Lease, or a question that nobody could answer.
"""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from scheduler.cli import help as cli_help
from scheduler.cli import pages as cli_pages
from scheduler.cli import run as cli_run
from scheduler.cli.flags import read_flags
from scheduler.errors import ConfigurationError
from scheduler.simulate.demo import DemoFailure, run_demo

KUBERNETES: Final = "1.36"
SCHEDULER_PAGES: Final = "https://127.0.0.1:10259"

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

_ServerOption = Annotated[
    str, typer.Option("--server", "-s", metavar="URL", help="Where the scheduler serves its pages.", show_default=True)
]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code. No traceback for what users can mend."""
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
        # What typer itself refuses can show itself; everything else is a bug, and its traceback is wanted.
        if not hasattr(error, "show"):
            raise
        error.show()
        return 1
    return answer if isinstance(answer, int) else 0


@app.command(
    add_help_option=False,
    options_metavar="[FLAGS]",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
def run(context: typer.Context) -> int:
    """Schedule pods until stopped. Takes kube-scheduler's flags: [bold]tandem run --help[/bold]."""
    flags = read_flags(context.args)
    if flags.get("help"):
        cli_help.show_run_help()
        return 0
    if flags.get("version"):
        return show_version()
    return cli_run.run(flags)


@app.command("check-config")
def check_config(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="YAML or JSON; - for standard input.", show_default=False)
    ],
    feature_gates: Annotated[
        list[str] | None, typer.Option("--feature-gates", metavar="Name=BOOL,…", help="As for [bold]run[/bold].")
    ] = None,
) -> int:
    """Check a configuration file: every fault with its path, and warnings. Exit code 1 if there is a fault."""
    flags = read_flags([f"--config={file}", *(f"--feature-gates={gate}" for gate in feature_gates or ())])
    prepared = cli_run.prepare(flags)
    for warning in prepared.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    names = ", ".join(profile.scheduler_name for profile in prepared.configuration.kube.profiles)
    print(f"{'standard input' if file == '-' else file} is valid. Profiles: {names}")
    return 0


@app.command("version")
def show_version() -> int:
    """Show the version, and the version of kube-scheduler whose decisions it makes."""
    print(f"Tandem {own_version()} (decides as kube-scheduler {KUBERNETES})")
    return 0


@app.command()
def why(
    pod: Annotated[str, typer.Argument(metavar="POD", help="NAME, or NAMESPACE/NAME.", show_default=False)],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The pod's namespace.")] = "default",
    server: _ServerOption = SCHEDULER_PAGES,
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON itself.")] = False,
) -> int:
    """Why a pod is where it is, or why it waits: node by node, what would wake it, what preemption found."""
    key = pod if "/" in pod else f"{namespace}/{pod}"
    return cli_pages.show_why(server, key, as_json)


@app.command()
def queue(
    server: _ServerOption = SCHEDULER_PAGES,
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON itself.")] = False,
) -> int:
    """Every pod that waits: where, since when, rejected by whom, and what would wake it."""
    return cli_pages.show_queue(server, as_json)


@app.command()
def demo(
    serve: Annotated[
        bool, typer.Option("--serve", help="Keep the cluster up afterwards, and print a kubeconfig for kubectl.")
    ] = False,
) -> int:
    """Watch it work, without a cluster: an API server in this process, the scheduler beside it, half a minute."""
    try:
        return asyncio.run(run_demo(Console(), serve=serve))
    except DemoFailure as failure:
        print(f"Error: {failure}", file=sys.stderr)
        return 1


def own_version() -> str:
    try:
        return version("tandem-scheduler")
    except PackageNotFoundError:
        return "(not installed)"
