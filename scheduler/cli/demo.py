"""``tandem demo``."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer
from rich.console import Console

from scheduler.simulate.demo import DemoFailure, run_demo


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
