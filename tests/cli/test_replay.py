"""``--record``, ``tandem replay`` and ``tandem snapshot`` as users run them: processes beside an embedded cluster."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.cli.main import main
from scheduler.simulate.apiserver.kinds import NAMESPACES, NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from scheduler.testing.documents import node_json, pod_json
from tests.cli.test_anonymise import text_of
from tests.limits import WAIT_SECONDS

PACKING = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: tandem-scheduler
  plugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def tandem(*arguments: str | Path, seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Runs the command in a process whose sets have an order of their own."""
    command = [sys.executable, "-m", "scheduler", *map(str, arguments)]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "COLUMNS": "200"}
    limit = 4 * WAIT_SECONDS
    return subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment, check=False)


async def recorded_run(folder: Path) -> list[subprocess.CompletedProcess[str]]:
    """A scheduler that places ten pods and leaves one waiting, recorded in ``recording``; snapshots of it and of the
    API server."""
    async with EmbeddedCluster() as cluster:
        cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
        for number in range(3):
            cluster.registry.create(NODES, "", node_json(f"n{number}", cpu="4"))
        kubeconfig = cluster.kubeconfig(folder / "kubeconfig")
        record = ("--record", str(folder / "recording"))
        async with ShippedScheduler(kubeconfig, folder / "log", *record) as shipped:
            for number in range(10):
                cluster.registry.create(PODS, "default", pod_json(f"p{number}", cpu="1"))
            cluster.registry.create(PODS, "default", pod_json("huge", cpu="9"))
            async with asyncio.timeout(WAIT_SECONDS):
                while not (await shipped.why("default/huge")).get("attempt"):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.05)
            wanted = ("--server", shipped.url)
            taken = [
                await asyncio.to_thread(tandem, "snapshot", folder / "snapshot", *wanted),
                await asyncio.to_thread(tandem, "snapshot", folder / "anonymous-snapshot", *wanted, "--anonymise"),
            ]
        write_objects(cluster, folder / "objects.json")
        options = ("--api", "--as", "tandem-scheduler", "--kubeconfig", kubeconfig)
        taken += [
            await asyncio.to_thread(tandem, "snapshot", folder / "cluster", *options),
            await asyncio.to_thread(tandem, "snapshot", folder / "anonymous-cluster", *options, "--anonymise"),
        ]
        assert shipped.exit_code == 0, "".join(shipped.log_lines())
    return taken


def write_objects(cluster: EmbeddedCluster, file: Path) -> None:
    """What ``kubectl get nodes,pods -A -o json`` prints."""
    items = [
        {"apiVersion": "v1", "kind": kind, **document}
        for kind, resource in (("Node", NODES), ("Pod", PODS))
        for document in cluster.store.list(resource)
    ]
    file.touch(mode=0o600)
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    asked = pod_json("asked", cpu="1")
    (file.parent / "pod.yaml").write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", **asked}))
    (file.parent / "packing.yaml").write_text(PACKING)


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


def test_a_process_of_its_own_asks_about_the_moment_of_an_attempt(folder: Path) -> None:
    done = tandem("why", "huge", "--from", folder / "recording", "--until", "default/huge")
    assert done.returncode == 0, done.stderr
    assert "3 Insufficient cpu" in done.stdout
    done = tandem("why", "huge", "--from", folder / "recording", "--until", "2000-01-01T00:00:00Z")
    assert done.returncode == 1
    assert "--until: the time is before the recording, which begins at 20" in done.stderr


def asked(capfd: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """What the command prints."""
    assert main([str(word) for word in words]) == 0, capfd.readouterr().err
    return capfd.readouterr().out


def answered(capfd: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked(capfd, *words, "--json"))
    return found


@pytest.mark.parametrize("place", ["recording", "snapshot", "cluster", "objects.json"])
def test_what_is_left_of_a_scheduler_answers_every_question(
    folder: Path, place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ten pods of one CPU are on three nodes of four; one of nine waits."""
    there = ("--from", folder / place)
    assert stat.S_IMODE((folder / place).stat().st_mode) in (0o600, 0o700)
    assert "no node of 3 fits" in asked(capfd, "why", "huge", *there)
    assert "is on" in asked(capfd, "why", "p0", *there)
    assert "default/huge" in asked(capfd, "queue", "--pods", *there)
    free = answered(capfd, "capacity", *there)["pools"][0]["resources"]["cpu"]
    assert (free["free"], free["allocatable"]) == (2_000, 12_000)
    helps = answered(capfd, "why", "huge", "--what-helps", *there)
    assert "resource" in {one["change"] for one in helps["helps"]}
    one_more = ("what-if", "-f", folder / "pod.yaml", *there)
    found = answered(capfd, *one_more, "--remove-pod", "p0", "--no-waiting", "--max")
    assert (found["placed"], found["pending"], found["room"][0]["count"]) == (1, 0, 2)
    (placement,) = answered(capfd, *one_more, "--config", folder / "packing.yaml")["placements"]
    page = answered(capfd, "capacity", "--pool", "kubernetes.io/hostname", *there)
    assert placement["node"] in fullest(page)


@pytest.mark.parametrize("place", ["snapshot", "cluster"])
def test_an_anonymised_snapshot_of_a_running_scheduler_answers_without_a_name(
    folder: Path, place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    plain, anonymous = (answered(capfd, "queue", "--from", folder / name) for name in (place, f"anonymous-{place}"))
    assert plain["counts"] == anonymous["counts"]
    assert [one["pod"] for one in plain["pods"]] == ["default/huge"]
    (renamed,) = [one["pod"] for one in anonymous["pods"]]
    assert "no node of 3 fits" in asked(capfd, "why", renamed, "--from", folder / f"anonymous-{place}")
    assert b"huge" in text_of(folder / place)
    assert b"huge" not in text_of(folder / f"anonymous-{place}")
    assert stat.S_IMODE((folder / f"anonymous-{place}").stat().st_mode) == 0o600


def fullest(page: dict[str, Any]) -> set[str]:
    """The nodes with the least free CPU that is enough for one more pod."""
    free = {pool["name"]: pool["resources"]["cpu"]["free"] for pool in page["pools"]}
    least = min(amount for amount in free.values() if amount >= 1_000)
    return {name for name, amount in free.items() if amount == least}


def test_a_moment_of_a_recording_is_asked_about(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In the second of its beginning there is no node; when the attempt at a pod is over, its CPU is taken."""
    recording = ("--from", folder / "recording")
    assert main(["capacity", *map(str, recording), "--until", "2000-01-01T00:00:00Z"]) == 1
    begins = capfd.readouterr().err.rpartition(" ")[2].strip()
    assert answered(capfd, "capacity", *recording, "--until", begins)["pools"] == []
    (pool,) = answered(capfd, "capacity", *recording, "--until", "default/p0")["pools"]
    assert 2_000 <= pool["resources"]["cpu"]["free"] <= 11_000
    assert "Attempt 1" in asked(capfd, "why", "p0", *recording, "--until", "default/p0")


def test_a_damaged_end_is_named_and_the_rest_answers(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (segment,) = (folder / "recording").iterdir()
    data = segment.read_bytes()
    (tmp_path / segment.name).write_bytes(data[: len(data) - 25])
    assert main(["queue", "--from", str(tmp_path)]) == 0
    assert segment.name in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--from", "objects.json", "--until", "default/p3"), "it has one moment"),
        (("--from", "recording", "--until", "default/none"), "no attempt at pod default/none is in this recording"),
        (("--from", "recording", "--until", "soon"), "is neither a time"),
        (("--from", "recording", "--until", "2000-01-01T00:00:00Z"), "before the recording, which begins at 20"),
        (("--from", "snapshot", "--until", "2000-01-01T00:00:00Z"), "before the recording, which begins at 20"),
        (("--until", "default/p3"), "belongs to --from"),
        (("--from", "absent"), "open "),
        (("--from", "recording", "--server", "http://127.0.0.1:1"), "exclude each other"),
        (("--from", "recording", "--watch"), "does not change"),
    ],
)
def test_a_place_that_can_not_be_asked_is_one_line(
    folder: Path, words: tuple[str, ...], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    places = ("objects.json", "recording", "snapshot", "absent")
    assert main(["queue", *(str(folder / word) if word in places else word for word in words)]) == 1
    printed = capfd.readouterr().err
    assert printed.startswith("Error: ") and text in printed


def test_what_can_not_be_replayed_is_one_line(tmp_path: Path) -> None:
    for place, wanted in ((tmp_path / "absent", "No such file"), (tmp_path, "there is no recording in it")):
        done = tandem("replay", place)
        assert done.returncode == 1
        assert wanted in done.stderr
        assert "Traceback" not in done.stderr
    done = tandem("replay", tmp_path, "--until", "soon")
    assert "is neither a time" in done.stderr


def test_a_replay_until_before_the_recording_says_so_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    early = ("--until", "2000-01-01T00:00:00Z")
    for more in ((), ("--anonymise", tmp_path / "anonymous"), ("--config", folder / "packing.yaml")):
        done = tandem("replay", folder / "recording", *early, *more)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error: --until: the time is before the recording, which begins at 20")
    assert not any(tmp_path.iterdir())
