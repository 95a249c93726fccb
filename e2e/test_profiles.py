"""Promise: profiles and configuration files of kube-scheduler work as they are."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import builders
from e2e.builders import SCHEDULER
from e2e.provider import Cluster
from e2e.room import Room
from e2e.tandem import Tandem, profile

pytestmark = pytest.mark.tandem_only

# The example of the Kubernetes documentation for several profiles.
NO_SCORING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
  - schedulerName: no-scoring-scheduler
    plugins:
      preScore:
        disabled:
        - name: '*'
      score:
        disabled:
        - name: '*'
"""


def packing() -> dict[str, Any]:
    """A profile that fills nodes up, and looks at nothing else."""
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    return {
        "schedulerName": "packing",
        "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 7}]}},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}],
    }


def careless() -> dict[str, Any]:
    """A profile that does not know of taints."""
    disabled = {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}
    return {"schedulerName": "careless", "plugins": disabled}


def test_profiles_of_one_process_place_by_their_own_plugins_and_weights(
    room: Room, new_tandem: Callable[..., Tandem]
) -> None:
    profiles = [{"schedulerName": SCHEDULER}, packing(), careless()]
    with new_tandem(config={**profile(SCHEDULER), "profiles": profiles}):
        room.add_nodes(
            builders.node("full"),
            builders.node("empty"),
            builders.node("tainted", cpu="64", taints=[builders.taint("keep-off")]),
        )
        room.add_pods(
            builders.pod("base", room.name, cpu="1", nodeSelector={"kubernetes.io/hostname": "full"}),
        )
        room.wait_placed("base", "full")
        # One after the other, as each counts for the next.
        for index in range(2):
            room.add_pods(builders.pod(f"packed-{index}", room.name, cpu="1", scheduler="packing"))
            room.wait_placed(f"packed-{index}", "full")
        room.add_pods(builders.pod("spread", room.name, cpu="1"))
        room.wait_placed("spread", "empty")
        room.add_pods(builders.pod("heedless", room.name, cpu="8", scheduler="careless"))
        room.wait_placed("heedless", "tainted")
        room.add_pods(builders.pod("heedful", room.name, cpu="8"))
        assert "untolerated taint" in room.wait_refused("heedful")["message"]
        for name, scheduler in (("packed-0", "packing"), ("spread", SCHEDULER)):
            (event,) = room.wait_events(name, "Scheduled")
            assert event["reportingController"] == scheduler


def test_the_documentation_s_example_of_two_profiles_works_as_it_is(
    room: Room, new_tandem: Callable[..., Tandem], tmp_path: Path
) -> None:
    file = tmp_path / "no-scoring.yaml"
    file.write_text(NO_SCORING)
    with new_tandem(options=[f"--config={file}"]):
        room.add_nodes(*(builders.node(f"n{i}") for i in range(3)))
        room.add_pods(*(builders.pod(f"p{i}", room.name, scheduler="default-scheduler") for i in range(3)))
        room.add_pods(*(builders.pod(f"q{i}", room.name, scheduler="no-scoring-scheduler") for i in range(3)))
        assert len(room.wait_bound(6)) == 6
        (event,) = room.wait_events("q0", "Scheduled")
        assert event["reportingController"] == "no-scoring-scheduler"


def test_the_file_that_kube_scheduler_writes_of_its_own_settings_works_as_it_is(
    room: Room, new_tandem: Callable[..., Tandem], cluster: Cluster, tmp_path: Path
) -> None:
    stated, written = tmp_path / "stated.yaml", tmp_path / "written.yaml"
    stated.write_text(
        yaml.safe_dump({**profile("from-kube-scheduler"), "clientConnection": {"kubeconfig": str(cluster.kubeconfig)}})
    )
    command = [str(cluster.programs / "kube-scheduler"), f"--config={stated}", f"--write-config-to={written}"]
    command += ["--secure-port=0", "--authentication-skip-lookup"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert written.exists(), done.stderr
    assert len(yaml.safe_load(written.read_text())["profiles"][0]["pluginConfig"]) > 5
    with new_tandem(scheduler_name="from-kube-scheduler", options=[f"--config={written}"]):
        room.add_nodes(*(builders.node(f"n{i}") for i in range(3)))
        room.add_pods(*(builders.pod(f"p{i}", room.name, scheduler="from-kube-scheduler") for i in range(6)))
        assert set(room.wait_bound(6).values()) == {"n0", "n1", "n2"}
