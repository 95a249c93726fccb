"""Files of objects with quantities that are none."""

from __future__ import annotations

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
