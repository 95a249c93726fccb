"""``--record``, ``tandem replay`` and ``tandem snapshot`` as users run them: processes beside an embedded cluster."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.simulate.apiserver.kinds import NAMESPACES, NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from scheduler.simulate.workload import node_document, pod_document
from tests.limits import WAIT_SECONDS


def tandem(*arguments: str | Path, seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Runs the command in a process whose sets have an order of their own."""
    command = [sys.executable, "-m", "scheduler", *map(str, arguments)]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, env=environment, check=False)


async def recorded_run(folder: Path) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """A scheduler that places ten pods and leaves one waiting, recorded in ``recording``; snapshots of it and of the
    API server."""
    async with EmbeddedCluster() as cluster:
        cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
        for number in range(3):
            cluster.registry.create(NODES, "", node_document(f"n{number}", cpu=4))
        kubeconfig = cluster.kubeconfig(folder / "kubeconfig")
        record = ("--record", str(folder / "recording"))
        async with ShippedScheduler(kubeconfig, folder / "log", *record) as shipped:
            for number in range(10):
                cluster.registry.create(PODS, "default", pod_document(f"p{number}", cpu="1"))
            cluster.registry.create(PODS, "default", pod_document("huge", cpu="9"))
            async with asyncio.timeout(WAIT_SECONDS):
                while not (await shipped.why("default/huge")).get("attempt"):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.05)
            taken = await asyncio.to_thread(tandem, "snapshot", folder / "snapshot", "--server", shipped.url)
        options = ("--api", "--as", "tandem-scheduler", "--kubeconfig", kubeconfig)
        listed = await asyncio.to_thread(tandem, "snapshot", folder / "cluster", *options)
        assert shipped.exit_code == 0, "".join(shipped.log_lines())
    return taken, listed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    for done in asyncio.run(recorded_run(folder)):
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_recorded_run_replays_identically_in_another_process(folder: Path, seed: str) -> None:
    done = tandem("replay", folder / "recording", seed=seed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "11 decisions" in done.stdout
    assert "each is the same" in done.stdout


def test_it_stops_at_a_pod_for_questions(folder: Path) -> None:
    done = tandem("replay", folder / "recording", "--until", "default/huge", "--why", "huge")
    assert done.returncode == 0, done.stderr
    assert "Insufficient cpu" in done.stdout
    done = tandem("replay", folder / "recording", "--until", "default/huge", "--queue")
    assert "default/huge" in done.stdout
    done = tandem("replay", folder / "recording", "--until", "2000-01-01T00:00:00Z", "--why", "huge")
    assert done.returncode == 1
    assert "default/huge is not known there" in done.stderr


@pytest.mark.parametrize("file", ["snapshot", "cluster"])
def test_a_snapshot_answers_questions_and_is_for_its_owner_alone(folder: Path, file: str) -> None:
    assert stat.S_IMODE((folder / file).stat().st_mode) == 0o600
    done = tandem("replay", folder / file, "--why", "huge")
    assert done.returncode == 0, done.stderr
    assert "Insufficient cpu" in done.stdout
    done = tandem("replay", folder / file, "--why", "p0")
    assert "is on" in done.stdout


def test_what_can_not_be_replayed_is_one_line(tmp_path: Path) -> None:
    for place, wanted in ((tmp_path / "absent", "No such file"), (tmp_path, "there is no recording in it")):
        done = tandem("replay", place)
        assert done.returncode == 1
        assert wanted in done.stderr
        assert "Traceback" not in done.stderr
    done = tandem("replay", tmp_path, "--until", "soon")
    assert "is neither a time" in done.stderr
