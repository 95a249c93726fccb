"""The shipped engine in the shipped shell, as production wires them, in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.run import Shell
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.settings import OperatorOptions, ShellSettings
from scheduler.controller.write.connection_settings import ConnectionSettings

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: tandem-scheduler}
profiles: [{schedulerName: tandem-scheduler}]
"""


@asynccontextmanager
async def running_shell(
    connection: ConnectionSettings, *, extenders: str = "[]", **settings: Any
) -> AsyncIterator[Shell]:
    """Without a Lease, unless the settings state one, and without kopf; ``extenders`` as YAML. Pages are served where
    the settings say so."""
    configuration = load(f"{CONFIGURATION}extenders: {extenders}\n")
    stated = {
        "serving": ServingSettings(port=0),
        "leader_election": LeaderElectionSettings(leader_elect=False),
        **settings,
    }
    shell = Shell(
        ShellSettings(
            "host",
            connection=connection,
            operator=OperatorOptions(enabled=False),
            **stated,
        ),
        Parts(build_engine(configuration, started=read_clock(), seed=1)),
        {},
    )
    running = asyncio.create_task(shell.run())
    try:
        yield shell
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
