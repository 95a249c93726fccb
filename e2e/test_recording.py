"""Promise: a run that is recorded replays identically in another process; snapshots answer as the scheduler does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import builders
from e2e.client import Client
from e2e.room import Room
from e2e.tandem import Tandem

pytestmark = pytest.mark.tandem_only

LOW, HIGH = "e2e-recorded-low", "e2e-recorded-high"


@pytest.fixture(autouse=True)
def _priorities(client: Client) -> Iterator[None]:
    client.create_all([builders.priority_class(LOW, 10), builders.priority_class(HIGH, 1000)])
    yield
    client.delete_all("PriorityClass", (LOW, HIGH))


def tandem(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scheduler", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_recorded_run_with_preemption_and_a_restart_replays_identically(
    room: Room, new_tandem: Callable[..., Tandem], tmp_path: Path
) -> None:
    recording = tmp_path / "recording"
    scheduler = new_tandem(options=[f"--record={recording}"])
    with scheduler:
        room.add_nodes(*(builders.node(name, cpu="2") for name in ("a", "b", "c")))
        room.add_pods(*(builders.pod(f"low-{n}", room.name, cpu="1", priorityClassName=LOW) for n in range(6)))
        room.wait_running(6)
        room.add_pods(builders.pod("important", room.name, cpu="1", priorityClassName=HIGH))
        room.wait_bound(6)
        room.add_pods(builders.pod("huge", room.name, cpu="9"))
        room.wait_refused("huge")
        snapshot = tmp_path / "snapshot"
        taken = tandem("snapshot", snapshot, "--server", f"http://127.0.0.1:{scheduler.port}")
        assert taken.returncode == 0, taken.stderr
        assert scheduler.stop() == 0
    with scheduler:
        room.add_pods(builders.pod("late", room.name, cpu="100m"))
        room.wait_refused("late")
        assert scheduler.stop() == 0
    done = tandem("replay", recording, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    reports = json.loads(done.stdout)
    assert len(reports) == 2
    assert all(report["decisions"] >= 1 for report in reports)
    asked = tandem("replay", snapshot, "--why", f"{room.name}/huge")
    assert "Insufficient cpu" in asked.stdout, asked.stdout + asked.stderr
