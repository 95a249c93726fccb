"""The shipped shell around the round-robin engine, as a process of its own: ``run_round_robin KUBECONFIG PORT``."""

from __future__ import annotations

import os
import sys

from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.parts import Parts
from scheduler.controller.report.log_settings import LogSettings
from scheduler.controller.run import run_blocking
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.settings import ShellSettings
from scheduler.controller.write.connection_settings import ConnectionSettings
from tests.controller.round_robin_engine import RoundRobinEngine


def parts() -> Parts:
    engine = RoundRobinEngine()
    return Parts(engine, gauges=engine)


def main(kubeconfig: str, port: str) -> int:
    settings = ShellSettings(
        "host",
        connection=ConnectionSettings(kubeconfig=kubeconfig),
        leader_election=LeaderElectionSettings(lease_duration=2.0, renew_deadline=1.0, retry_period=0.2),
        serving=ServingSettings("127.0.0.1", int(port)),
        logs=LogSettings("json", 2),
    )
    return run_blocking(settings, parts, os.environ)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
