"""Commands that decide by a configuration warn of names in it that are no plugin's, as ``tandem check-config`` does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from scheduler.cli.main import main
from scheduler.simulate.apiserver.kinds import NAMESPACES, NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from scheduler.testing.documents import node_json, pod_json
from tests.cli.test_compare import recorded

TEXT = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: ImageLocalty}]}}
- schedulerName: tandem-scheduler
"""
WARNING = (
    'Warning: profiles[0].plugins.score.disabled[0]: ignored: plugin "ImageLocalty" does not exist '
    '(did you mean "ImageLocality"?)\n'
)
"""The one that there is: that kube-scheduler has a profile of that name, too, says nothing about decisions."""


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(TEXT)
    return str(file)


def test_a_question_about_objects_warns_on_standard_error(
    config: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    objects = tmp_path / "objects.json"
    objects.write_bytes(msgspec.json.encode({"kind": "List", "items": [{"kind": "Node", **node_json("n")}]}))
    for more in ((), ("--json",)):
        assert main(["what-if", "--from", str(objects), "--cordon", "n", "--config", config, *more]) == 0
        found = capfd.readouterr()
        assert found.err == WARNING
        assert "ImageLocalty" not in found.out or json.loads(found.out)["warnings"]


def test_a_comparison_warns_once_on_standard_error(
    config: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "recording")
    capfd.readouterr()
    assert main(["replay", str(tmp_path / "recording"), "--config", config]) == 0
    assert capfd.readouterr().err == WARNING


async def test_a_running_scheduler_and_a_snapshot_of_the_api_server_warn_on_standard_error(
    config: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedCluster() as cluster:
        cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
        cluster.registry.create(NODES, "", node_json("n", cpu="4"))
        cluster.registry.create(PODS, "default", pod_json("huge", cpu="9"))
        kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
        words = ["snapshot", str(tmp_path / "snapshot"), "--api", "--kubeconfig", kubeconfig, "--config", config]
        assert await asyncio.to_thread(main, words) == 0
        assert capfd.readouterr().err == WARNING
        async with ShippedScheduler(Path(kubeconfig), tmp_path / "log") as shipped:
            asked = ["what-if", "--cordon", "n", "--config", config, "--server", shipped.url]
            assert await asyncio.to_thread(main, asked) == 0
            assert capfd.readouterr().err == WARNING
