"""Files of objects that are seldom: quantities that are none, no objects at all, gated workloads."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from scheduler.cli.main import main

NODE = """apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: many}}
"""
POD = """apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default, uid: u}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: many}}}]}
"""


@pytest.mark.parametrize(("text", "named"), [(NODE, "Node n1"), (POD, "Pod default/p")])
@pytest.mark.parametrize("words", [["queue"], ["capacity"], ["why", "p"], ["what-if", "--drain", "n1"]])
def test_a_quantity_that_is_none_is_named_with_its_object(
    text: str, named: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(text)
    assert main([*words, "--from", str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"Error: --from: {named}: 'many' is not a quantity")


@pytest.mark.parametrize("words", [["queue"], ["capacity"], ["why", "p"], ["what-if", "--drain", "n1"]])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no object in it"),
        ("---\n# nothing\n", "there is no object in it"),
        ('{"apiVersion": "v1", "kind": "List", "items": []}', "there is no object in it"),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
            "there is no object in it that decisions read, such as a Pod or a Node of v1, but ConfigMap of v1",
        ),
        ("- a\n", "Expected `object`, got `array`"),
        ("key: value", "but (no kind) of (no apiVersion)"),
        ("".join(f"---\nkind: K{number}\napiVersion: v1\n" for number in range(7)), "K4 of v1 and 2 more"),
    ],
)
def test_a_file_without_an_object_that_decisions_read_is_an_error(
    text: str, reason: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "objects.yaml"
    # What begins with a brace would be JSON.
    file.write_text(text if text.startswith('{"') else f"# objects\n{text}")
    assert main([*words, "--from", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"Error: --from: {file}: ") and printed.err.rstrip().endswith(reason)


def test_pods_of_a_workload_that_a_gate_holds_have_its_reason_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = "{apiVersion: batch/v1, kind: Job, name: train, uid: j, controller: true}"
    spec = "{schedulerName: s, schedulingGates: [{name: example.com/quota}], containers: [{name: c}]}"
    file = tmp_path / "objects.yaml"
    file.write_text(
        "---\n".join(
            f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}, namespace: default, uid: u{number}, "
            f"ownerReferences: [{owner}]}}\nspec: {spec}\n"
            for number in range(2)
        )
    )
    assert main(["why", "job/train", "--from", str(file), "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["waiting"]
    assert (group["count"], group["rejectedBy"]) == (2, "SchedulingGates")
    assert main(["queue", "--from", str(file)]) == 0
    assert f"SchedulingGates: {group['message']}" in capsys.readouterr().out
    assert "example.com/quota" in group["message"]


def test_objects_may_come_through_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        file.write("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default, uid: u}\n")
        file.write("spec: {schedulerName: s, containers: [{name: c}]}\n")
    try:
        assert main(["queue", "--from", f"/dev/fd/{reading}"]) == 0
    finally:
        os.close(reading)
    assert "default/p " in capsys.readouterr().out
