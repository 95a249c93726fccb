"""The entry point: from the words of a command line to an exit code."""

from __future__ import annotations

import sys

from scheduler.cli.commands import BY_NAME
from scheduler.cli.complaint import complain
from scheduler.controller import garbage
from scheduler.errors import ConfigurationError


def main(arguments: list[str] | None = None, name: str = "tandem") -> int:
    """Run the command line; returns the exit code. Errors that users can fix are shown without a traceback.

    ``name``: what the user typed to get here, for help and errors.
    """
    words = sys.argv[1:] if arguments is None else arguments
    # What is imported stays: the collector would walk over it again and again, and find nothing.
    garbage.collect_seldom()
    try:
        return _run(words, name)
    except ConfigurationError as error:
        for fault in error.faults:
            complain(str(fault))
        return 1
    except KeyboardInterrupt:
        return 130


def _run(words: list[str], name: str) -> int:
    command = BY_NAME.get(words[0]) if words else None
    # typer takes 0.1 s of CPU: a command without options, or with flags of its own rules, does without it.
    if command is not None and command.reads_words:
        return int(command.load()(words[1:]))
    if words == ["version"]:
        return int(BY_NAME["version"].load()())
    from scheduler.cli.app import run_app

    return run_app(words, name)
