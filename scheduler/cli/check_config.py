"""``tandem check-config``."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.cli.complaint import warn
from scheduler.cli.flags import read_flags
from scheduler.cli.options import Options, argument, option, options
from scheduler.cli.prepare import prepare


@dataclass(frozen=True, kw_only=True)
class CheckConfigOptions(Options):
    """The options of ``tandem check-config``."""

    file: str = argument("FILE", "YAML or JSON; - for standard input.")
    feature_gates: tuple[str, ...] = options("--feature-gates", metavar="Name=BOOL,…", help="As for [bold]run[/bold].")
    plugin_folder: str = option("--plugin-folder", metavar="FOLDER", help="As for [bold]run[/bold].")


def check_config(options: CheckConfigOptions) -> int:
    """Check a configuration file: every fault with its path, and warnings. Exit code 1 if there is a fault."""
    gates = [f"--feature-gates={gate}" for gate in options.feature_gates]
    flags = read_flags([f"--config={options.file}", f"--plugin-folder={options.plugin_folder}", *gates])
    prepared = prepare(flags)
    for warning in prepared.warnings:
        warn(str(warning))
    names = ", ".join(profile.scheduler_name for profile in prepared.configuration.kube.profiles)
    print(f"{'standard input' if options.file == '-' else options.file} is valid. Profiles: {names}")
    return 0
