"""The shipped shell around the round-robin engine, as a process of its own: ``run_round_robin KUBECONFIG PORT``.

Its last line on stderr is JSON, too: what was imported when the first lists had been read.
"""

from __future__ import annotations

import os
import sys

import msgspec

from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.parts import Parts
from scheduler.controller.report.log_settings import LogSettings
from scheduler.controller.run import run_blocking
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.settings import ShellSettings
from scheduler.controller.write.connection_settings import ConnectionSettings
from tests.controller.round_robin_engine import RoundRobinEngine


def main(kubeconfig: str, port: str) -> int:
    settings = ShellSettings(
        "host",
        connection=ConnectionSettings(kubeconfig=kubeconfig),
        leader_election=LeaderElectionSettings(lease_duration=2.0, renew_deadline=1.0, retry_period=0.2),
        serving=ServingSettings("127.0.0.1", int(port)),
        logs=LogSettings("json", 2),
    )
    engine = RoundRobinEngine()
    code = run_blocking(settings, lambda: Parts(engine, gauges=engine), os.environ)
    if engine.is_synced:
        ended = {"event": "Ended", "modules": sorted(engine.modules_when_synced)}
        print(msgspec.json.encode(ended).decode(), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
