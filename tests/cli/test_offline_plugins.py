"""Plugins of users in commands that decide in their own process."""

from __future__ import annotations

import json
from pathlib import Path

from scheduler.testing.documents import node_json, pod_json
from tests.cli.test_replay import tandem

MODULE = """
from scheduler.plugin import PerNodeFilter


class Rack(PerNodeFilter):
    def filter_one(self, state, pod, node, node_view):
        raise KeyError("rack")
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: tandem-scheduler
  plugins: {filter: {enabled: [{name: Rack}]}}
---
apiVersion: tandem.scheduling/v1alpha1
kind: TandemConfiguration
plugins: [{name: Rack, path: "raising_rack:Rack"}]
"""


def test_what_a_plugin_raises_is_logged_beside_the_answer_and_not_amid_it(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "raising_rack.py").write_text(MODULE)
    (tmp_path / "config.yaml").write_text(CONFIGURATION)
    items = [
        {"apiVersion": "v1", "kind": "Node", **node_json("a")},
        {"apiVersion": "v1", "kind": "Pod", **pod_json("p")},
    ]
    (tmp_path / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    places = ("--from", tmp_path / "objects.json", "--config", tmp_path / "config.yaml", "--plugin-folder", folder)
    answered = tandem("what-if", *places, "--waiting", "--json")
    (placement,) = json.loads(answered.stdout)["placements"]
    assert placement["message"] == "running \"Rack\" filter plugin: KeyError: 'rack'"
    assert "Plugin failed" in answered.stderr and "plugin=Rack" in answered.stderr
