"""``tandem what-if`` on a file of objects: what the flags ask, and how faults are reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.cli.main import main
from scheduler.testing.documents import node_json, pod_json

MANIFEST = """
kind: Pod
metadata: {name: asked}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]}
"""


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    items: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Node", **node_json(name, cpu=cpu)} for name, cpu in (("n0", "2"), ("n1", "4"))
    ]
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}]}
    web = pod_json("web", cpu="1", node="n0", scheduler="default-scheduler", metadata=owner)
    waiting = pod_json("waits", cpu="4", scheduler="default-scheduler")
    items += [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in (web, waiting)]
    items.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "not-read"}})
    file = tmp_path / "cluster.json"
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    return str(file)


def answer(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["what-if", *words, "--json"]) == 0, capfd.readouterr().err
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def nodes(found: dict[str, Any]) -> dict[str, str]:
    return {one["pod"]: one.get("node", "") for one in found.get("placements", [])}


def test_a_waiting_pod_of_another_scheduler_is_tried_as_by_that_scheduler(
    snapshot: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = answer(capfd, "--from", snapshot, "--waiting")
    assert nodes(found) == {"default/waits": "n1"}
    assert "byProfile" not in found["placements"][0]


def test_flags_are_edits_of_one_change(snapshot: str, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    node = json.dumps({"kind": "Node", **node_json("n2")})
    (tmp_path / "edit.yaml").write_text(f"edit: uncordon\nnode: n1\n---\n{node}")
    words = ["--drain", "n0", "--cordon", "n1", "--taint", "n1:k=v:NoSchedule", "--label", "n1:disk=ssd"]
    words += ["--add-nodes", "1", "--like", "n0", "--edit", str(tmp_path / "edit.yaml"), "--no-waiting"]
    found = answer(capfd, "--from", snapshot, *words)
    assert found["nodesAdded"] == ["n0-new-1", "n2"]
    assert nodes(found)["default/web"] in ("n0-new-1", "n2")


def test_a_manifest_is_of_the_stated_namespace_and_number(
    snapshot: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("-f", str(tmp_path / "pod.yaml"), "--replicas", "3", "-n", "shop", "--max")
    found = answer(capfd, "--from", snapshot, *words)
    assert set(nodes(found)) == {"shop/asked-1", "shop/asked-2", "shop/asked-3"}
    assert (found["placed"], found["pending"], found["room"][0]["count"]) == (2, 1, 0)


def test_the_tables_say_why_a_pod_would_wait_and_how_many_fit(
    snapshot: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["what-if", "--from", snapshot, "-f", str(tmp_path / "pod.yaml"), "--max", "--drain", "n0"]) == 0
    printed = capfd.readouterr().out
    assert "would wait" in printed and "Insufficient cpu" in printed and "of asked fit" in printed


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "neither pods nor edits: name pods with -f FILE, or a change such as --drain NODE"),
        (("--drain", "none"), "node 'none' is not known"),
        (("--taint", "n0"), "must be NODE:KEY[=VALUE]:EFFECT"),
        (("--label", "n0"), "must be NODE:KEY=VALUE"),
        (("--add-nodes", "2"), "belong together"),
        (("--like", "n0"), "belong together"),
        (("-f", "/no/such/file"), "open /no/such/file"),
        (("-f", "BROKEN"), "--filename: BROKEN: error converting YAML"),
        (("--edit", "BROKEN"), "--edit: BROKEN: error converting YAML"),
        (("--config", "BROKEN", "--drain", "n0"), "error converting YAML"),
        (("--drain", "\udcff"), "'\\udcff' is not UTF-8"),
    ],
)
def test_a_fault_is_one_line_and_exit_code_1(
    snapshot: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1,\x00")
    stated = [str(broken) if word == "BROKEN" else word for word in words]
    assert main(["what-if", "--from", snapshot, *stated]) == 1
    error = capfd.readouterr().err
    assert error.startswith("Error: ")
    assert text.replace("BROKEN", str(broken)) in error


def test_what_the_terminal_can_not_print_is_escaped(snapshot: str) -> None:
    command = [sys.executable, "-m", "scheduler", "why", "web", "--from", snapshot]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert b"NodeResourcesFit \\xd71" in done.stdout


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"kind": "List", "items": 7}', "a: b", "\x00"])
def test_a_snapshot_that_is_none_is_refused_or_empty(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "snapshot"
    file.write_text(text)
    assert main(["what-if", "--from", str(file), "--drain", "n0"]) == 1
    assert capfd.readouterr().err.startswith("Error: ")


def test_pods_that_leave_later_are_shown_with_their_time(
    snapshot: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}]}
    brief = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300}]
    pod = pod_json("brief", cpu="1", node="n0", metadata=owner, tolerations=brief)
    taint = {"edit": "taint", "node": "n0", "key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    edits = tmp_path / "edits.yaml"
    edits.write_text(json.dumps({"kind": "List", "items": [{"kind": "Pod", **pod}, taint]}))
    assert main(["what-if", "--from", snapshot, "--no-waiting", "--edit", str(edits)]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    assert "default/brief evicted after 300 s, n0 n1" in printed
    assert "Note: evicted later: 1 pod, after tolerating the taint for 300 s" in printed
