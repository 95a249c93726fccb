"""``tandem replay --config``: what another configuration makes of a recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.cli.main import main
from scheduler.objects.kinds import Kind
from scheduler.simulate.world_trouble import CALM
from scheduler.testing.documents import node_json, pod_json
from tests.controller.record.test_recorder import RecordedWorld

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
    assert "pods placed" in capsys.readouterr().out


def test_the_same_configuration_makes_the_same_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "recording")
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    before, after = outcomes(capsys, tmp_path / "recording", config)
    assert (before["placed"], before["room"]) == (after["placed"], after["room"])
