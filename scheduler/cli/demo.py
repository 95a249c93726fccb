"""``tandem demo``."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from typing import Final

from scheduler.cli.complaint import complain
from scheduler.cli.options import Options, switch
from scheduler.cli.tables import terminal
from scheduler.simulate.demo import DemoFailure, run_demo

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code of a demo that was terminated before its end, as shells have it."""


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Options):
    """The options of ``tandem demo``."""

    serve: bool = switch("--serve", help="Keep the cluster up afterwards, and print a kubeconfig for kubectl.")


def demo(options: DemoOptions) -> int:
    """Watch it work, without a cluster: an API server in this process, the scheduler beside it, half a minute."""
    try:
        return asyncio.run(_until_terminated(serve=options.serve))
    except DemoFailure as failure:
        complain(str(failure))
        return 1
    except asyncio.CancelledError:
        return TERMINATED


async def _until_terminated(*, serve: bool) -> int:
    """Run the demo. SIGTERM and SIGHUP end it as Ctrl-C does: the scheduler is stopped and its folder removed."""
    running = asyncio.current_task()
    assert running is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    return await run_demo(terminal(), serve=serve)
