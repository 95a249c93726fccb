"""``tandem check-config``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from scheduler.cli.flags import read_flags
from scheduler.cli.prepare import prepare


def check_config(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="YAML or JSON; - for standard input.", show_default=False)
    ],
    feature_gates: Annotated[
        list[str] | None, typer.Option("--feature-gates", metavar="Name=BOOL,…", help="As for [bold]run[/bold].")
    ] = None,
    plugin_folder: Annotated[
        str, typer.Option("--plugin-folder", metavar="FOLDER", help="As for [bold]run[/bold].", show_default=False)
    ] = "",
) -> int:
    """Check a configuration file: every fault with its path, and warnings. Exit code 1 if there is a fault."""
    gates = [f"--feature-gates={gate}" for gate in feature_gates or ()]
    flags = read_flags([f"--config={file}", f"--plugin-folder={plugin_folder}", *gates])
    prepared = prepare(flags)
    for warning in prepared.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    names = ", ".join(profile.scheduler_name for profile in prepared.configuration.kube.profiles)
    print(f"{'standard input' if file == '-' else file} is valid. Profiles: {names}")
    return 0
