"""The shipped engine in the shipped shell, as production wires them, in the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
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


def quiet_settings(connection: ConnectionSettings, **stated: Any) -> ShellSettings:
    """Without a Lease and without kopf; pages on a free port unless stated."""
    usual: dict[str, Any] = {
        "leader_election": LeaderElectionSettings(leader_elect=False),
        "serving": ServingSettings(port=0),
        "operator": OperatorOptions(enabled=False),
    }
    return ShellSettings("host", connection=connection, **(usual | stated))


@asynccontextmanager
async def running(shell: Shell) -> AsyncIterator[Shell]:
    """The shell in a task of its own, which is cancelled at the end."""
    task = asyncio.create_task(shell.run())
    try:
        yield shell
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def running_shell(
    connection: ConnectionSettings,
    *,
    extenders: str = "[]",
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Shell]:
    """The shipped shell with the shipped engine; ``extenders`` as YAML."""
    configuration = load(f"{CONFIGURATION}extenders: {extenders}\n")
    engine = build_engine(configuration, started=read_clock(), seed=1)
    async with running(Shell(quiet_settings(connection, **settings), Parts(engine), environment or {})) as shell:
        yield shell
