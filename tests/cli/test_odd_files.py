"""Files of objects with quantities that are none, and files without objects."""

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
