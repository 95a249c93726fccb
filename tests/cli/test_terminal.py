"""Output on a terminal of no known width."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.cli.main import main

NODE = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 1, pods: 9}}}"
POD = (
    "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default, uid: u}, "
    "spec: {schedulerName: s, containers: [{name: c}]}}"
)


@pytest.mark.parametrize("words", [["queue"], ["queue", "--pods"], ["capacity"], ["what-if", "--drain", "n1"]])
def test_a_width_of_nothing_counts_as_unknown(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(f"---\n{NODE}\n---\n{POD}\n")
    shown = []
    for columns in ("80", "0"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main([*words, "--from", str(file)]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] and shown[0] == shown[1]


def test_help_has_a_width_where_the_terminal_knows_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert main(["queue", "--help"]) == 0
    assert "Show the pending pods" in capsys.readouterr().out
