"""The commands, as a table. A command's module is imported when the command is given: each loads only what it needs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from scheduler.controller.optional_imports import without_optional

HELP: Final = ("--help", "-h")


class Command(Struct, frozen=True):
    """A command. ``name`` is its word; ``module`` has a function that is named by it, and the class of its options,
    which derives from ``Options``.

    ``reads_words``: the function takes the words after the command, and there is no such class; ``shows_help``: also
    those that ask for help. ``leaves_out``: what its libraries would import if they could, for nothing that the command
    needs.
    """

    name: str
    help: str
    module: str
    reads_words: bool = False
    shows_help: bool = False
    leaves_out: tuple[str, ...] = ()

    def function(self) -> Callable[..., Any]:
        """Import the command's function."""
        with without_optional(*self.leaves_out):
            module = importlib.import_module(self.module)
        function: Callable[..., Any] = getattr(module, self.name.replace("-", "_"))
        return function

    def options(self) -> type[Any]:
        """Import the class of the command's options: of ``what-if``, ``WhatIfOptions``."""
        name = "".join(part.capitalize() for part in self.name.split("-"))
        kind: type[Any] = getattr(importlib.import_module(self.module), f"{name}Options")
        return kind


COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        "run",
        "Schedule pods until stopped. Takes kube-scheduler's flags: [bold]tandem run --help[/bold].",
        "scheduler.cli.run",
        reads_words=True,
        shows_help=True,
        leaves_out=("rich",),
    ),
    Command(
        "check-config",
        "Check a configuration file: every fault with its path, and warnings. Exit code 1 if there is a fault.",
        "scheduler.cli.check_config",
    ),
    Command(
        "version",
        "Show the version, and the version of kube-scheduler whose decisions it makes.",
        "scheduler.cli.version",
        reads_words=True,
    ),
    Command(
        "why",
        "Why a pod is where it is, or why it waits: node by node, what would wake it, what preemption found.",
        "scheduler.cli.why",
    ),
    Command(
        "queue",
        "Show every pending pod: where, since when, which plugins rejected it, and which events would wake it.",
        "scheduler.cli.queue",
    ),
    Command(
        "what-if",
        "Where pods would go, and where everything would go after a change: asked of the scheduler, nothing happens.",
        "scheduler.cli.what_if",
    ),
    Command(
        "capacity",
        "What is free by pool of nodes and resource, how many more pods fit, and where room is lost.",
        "scheduler.cli.capacity",
    ),
    Command(
        "replay",
        "Decide a recording again: proves that every decision is the same, or shows the first that is not.",
        "scheduler.cli.replay",
    ),
    Command(
        "snapshot",
        "Write the state of a running scheduler, or with --api of any cluster, into a file for questions.",
        "scheduler.cli.snapshot",
    ),
    Command(
        "nodes",
        "Show what is taken of every node, or who is on one and who is nominated to it.",
        "scheduler.cli.nodes",
    ),
    Command(
        "decisions",
        "Show the newest decisions: which pod went where, or why it did not, and its victims.",
        "scheduler.cli.decisions",
    ),
    Command(
        "ui",
        "Show the scheduler's page in a browser: nodes, queue, decisions, a pod's story, what-if. Until Ctrl-C.",
        "scheduler.cli.ui",
    ),
    Command(
        "demo",
        "Watch it work, without a cluster: an API server in this process, the scheduler beside it, half a minute.",
        "scheduler.cli.demo",
    ),
    Command(
        "completion",
        "Print the script with which a shell completes commands and flags.",
        "scheduler.cli.completion",
    ),
)

BY_NAME: Final = {command.name: command for command in COMMANDS}
