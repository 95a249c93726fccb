"""``tandem replay --config``: what another configuration makes of a recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.cli.main import main
from scheduler.objects.kinds import Kind
from scheduler.simulate.world_trouble import CALM
from scheduler.testing.documents import node_json, pod_json
from tests import device_documents
from tests.controller.record.test_recorder import RecordedWorld
from tests.engine.gangs import GANGS

FIT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: tandem-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: {}, resources: [{{name: cpu, weight: 100}}]}}}}
  plugins: {{score: {{disabled: [{{name: "*"}}], enabled: [{{name: NodeResourcesFit, weight: 100}}]}}}}
"""


def recorded(folder: Path) -> dict[str, str]:
    """Four nodes of 4 CPUs; pods come one by one, some end, a pod for a whole node comes last. Returns who is
    where."""
    made = RecordedWorld(folder, seed=3)
    world, made.world.trouble = made.world, CALM
    for name, _ in list(world.facts.of(Kind.NODE)):
        world.delete(Kind.NODE, name)
    for number in range(4):
        world.create(Kind.NODE, node_json(f"n{number}"))
    world.run_for(5)
    for number in range(8):
        world.create(Kind.POD, pod_json(f"p{number}", cpu="500m"))
        world.run_for(1)
        made.recorders[-1].flush()
    world.create(Kind.POD, pod_json("whole", cpu="4"))
    world.run_for(30)
    made.close()
    return world.bound()


def outcomes(capsys: pytest.CaptureFixture[str], folder: Path, config: Path) -> tuple[dict[str, object], ...]:
    capsys.readouterr()
    assert main(["replay", str(folder), "--config", str(config), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    return report["recorded"], report["other"]


def test_another_configuration_is_compared_by_pods_placed_and_room_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = recorded(tmp_path / "recording")
    assert len(set(bound.values())) == 4
    assert "default/whole" not in bound
    config = tmp_path / "config.yaml"
    config.write_text(FIT.format("MostAllocated"))
    before, after = outcomes(capsys, tmp_path / "recording", config)
    assert (before["placed"], before["waiting"]) == (8, 1)
    assert (after["placed"], after["waiting"]) == (9, 0), "packed, a whole node is left for the last pod"
    assert before["room"]["cpu"] == {"free": 12_000, "of": 16_000, "largest": 3_000}  # type: ignore[index]
    assert after["room"]["cpu"] == {"free": 8_000, "of": 16_000, "largest": 4_000}  # type: ignore[index]
    assert main(["replay", str(tmp_path / "recording"), "--config", str(config)]) == 0
    shown = capsys.readouterr().out
    assert "pods placed" in shown and "cpu free, of 16 " in shown


def test_the_same_configuration_makes_the_same_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "recording")
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    before, after = outcomes(capsys, tmp_path / "recording", config)
    assert (before["placed"], before["room"]) == (after["placed"], after["room"])


DEFAULTS = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def a_gang_without_room(folder: Path) -> None:
    """A group of which one of three pods finds no node."""
    made = RecordedWorld(folder, seed=3, gates=GANGS)
    world, made.world.trouble = made.world, CALM
    for name, _ in list(world.facts.of(Kind.NODE)):
        world.delete(Kind.NODE, name)
    world.create(Kind.NODE, node_json("n0", cpu="2"))
    world.run_for(5)
    gang = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    world.create(Kind.POD_GROUP, {"metadata": {"name": "g", "namespace": "default"}, "spec": gang})
    for number in range(3):
        spec = {"schedulingGroup": {"podGroupName": "g"}}
        world.create(Kind.POD, pod_json(f"g{number}", cpu="1", spec=spec))
    world.create(Kind.RESOURCE_CLAIM, device_documents.claim("unused", "gpus"))
    world.run_for(30)
    made.close()
    assert not world.bound()


def test_groups_are_groups_for_the_other_configuration_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_gang_without_room(tmp_path / "recording")
    config = tmp_path / "config.yaml"
    config.write_text(DEFAULTS)
    before, after = outcomes(capsys, tmp_path / "recording", config)
    assert (before["placed"], after["placed"], after["waiting"]) == (0, 0, 3)


def test_the_comparison_says_that_devices_are_those_of_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_gang_without_room(tmp_path / "recording")
    config = tmp_path / "config.yaml"
    config.write_text(DEFAULTS)
    assert main(["replay", str(tmp_path / "recording"), "--config", str(config)]) == 0
    assert "Note: devices are allocated as recorded" in " ".join(capsys.readouterr().out.split())


def test_damaged_files_are_named_and_the_others_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recording"
    recorded(folder)
    damaged = folder / f"0{min(path.name for path in folder.iterdir())}"
    damaged.write_bytes(min(folder.iterdir()).read_bytes()[:40])
    config = tmp_path / "config.yaml"
    config.write_text(DEFAULTS)
    assert main(["replay", str(folder), "--config", str(config)]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f"Error: {damaged}")
    assert "pods placed" in captured.out


def test_a_configuration_without_a_profile_for_the_recorded_pods_is_noted_with_its_profiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "recording")
    config = tmp_path / "config.yaml"
    config.write_text(DEFAULTS + "profiles: [{schedulerName: packing}, {schedulerName: spreading}]\n")
    _, after = outcomes(capsys, tmp_path / "recording", config)
    assert (after["placed"], after["waiting"]) == (0, 0)
    assert main(["replay", str(tmp_path / "recording"), "--config", str(config)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Note: no profile of the other configuration is for pods of scheduler tandem-scheduler," in shown
    assert shown.endswith("its profiles are packing, spreading")
    config.write_text(DEFAULTS + "profiles: [{schedulerName: packing}, {schedulerName: tandem-scheduler}]\n")
    assert main(["replay", str(tmp_path / "recording"), "--config", str(config)]) == 0
    assert "Note:" not in capsys.readouterr().out
