"""Faults of a configuration are found at once: line, column, and what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.cli.main import main

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parallelsm: 3\n", ['"parallelsm" (did you mean "parallelism"?)', "config:3:13"]),
        ("podInitialBackoffSeconds: -1\n", ["podInitialBackoffSeconds", "config:3:27"]),
        (
            "profiles:\n- schedulerName: one\n  plugins:\n    score:\n      enabled:\n      - name: NodeResourceFit\n",
            ['"NodeResourceFit" does not exist (did you mean "NodeResourcesFit"?)', "config:8:15"],
        ),
        (
            "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n"
            "    args: {scoringStrategy: {type: LeastAlocated}}\n",
            ["Unsupported value", "config:6:36"],
        ),
        (
            "---\napiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\nlimits: {queuedWrites: 0}\n",
            ["limits.queuedWrites", "config:6:24"],
        ),
        (
            "---\napiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
            "nodeScope:\n  tandem-scheduler:\n    matchExpressions:\n    - {key: pool, operator: Gt, values: ['1']}\n",
            ['nodeScope.tandem-scheduler.matchExpressions[0]: "Gt" is not a valid', "config:9:7"],
        ),
        (
            "---\napiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
            "nodeScope:\n  team.a:\n    matchLabels: {pool: a}\n",
            ['supported values: "tandem-scheduler"', "config:7:3"],
        ),
        ("profiles: [\n", ["line 4"]),
    ],
)
def test_a_fault_says_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: list[str]
) -> None:
    file = tmp_path / "config"
    file.write_text(HEAD + text)
    assert main(["check-config", str(file)]) == 1
    errors = capsys.readouterr().err
    for part in said:
        assert part in errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"# mine\nparallelism: 3\n", "Error: Object 'Kind' is missing (config:2:1)"),
        (b"kind: KubeSchedulerConfiguration\n", "Error: Object 'apiVersion' is missing (config:1:1)"),
        (
            b"kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1beta3\n",
            'the version served is "kubescheduler.config.k8s.io/v1" (config:2:13)',
        ),
        (b"apiVersion: v1\nkind: Pod\n", 'no kind "Pod" is registered for version "v1" (config:2:7)'),
        (
            HEAD.encode() + b"---\nkind: TandemConfiguration\napiVersion: tandem.scheduling/v2\n",
            'the version served is "tandem.scheduling/v1alpha1" (config:5:13)',
        ),
        (
            HEAD.encode() + b"---\n---\n" + HEAD.encode(),
            "the configuration holds more than one KubeSchedulerConfiguration (config:6:7)",
        ),
        (b"", "Error: Object 'Kind' is missing (config)"),
        (b"---\n", "Error: Object 'Kind' is missing (config)"),
        (b"profiles: [\n", "at line 2, column 1 (config)"),
        (b"[" * 101, "Error: the text is nested deeper than 100 levels (config:1:101)"),
        (b'{"a": }', "Error: what begins with { must be JSON: Expecting value (config:1:7)"),
        (HEAD.encode() + b"---\n- a\n", "Error: a document must be a mapping, got a list (config:4:1)"),
        (HEAD.encode() + "# ä\n'ä': \"".encode() + b'\xff"', "is not UTF-8: byte 0xff (config:4:7)"),
        (b'{\n"kind": "Pod", "apiVersion": "v1"}', 'registered for version "v1" (config:2:9)'),
        (b'{"parallelism":\n NaN}', "parallelism: what begins with { must be JSON: NaN is no JSON (config:2:2)"),
        (
            b'{"parallelism":\n 1' + b"0" * 5_000 + b"}",
            "parallelism: a number of more than 64 characters (config:2:2)",
        ),
    ],
)
def test_a_fault_of_a_whole_document_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: bytes, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config").write_bytes(text)
    assert main(["check-config", "config"]) == 1
    assert said in capsys.readouterr().err


def test_json_has_positions_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config"
    file.write_text(
        '{"apiVersion": "kubescheduler.config.k8s.io/v1",\n "kind": "KubeSchedulerConfiguration",\n "parallelsm": 1}'
    )
    assert main(["check-config", str(file)]) == 1
    assert "config:3:16" in capsys.readouterr().err


def test_a_far_fetched_name_gets_no_suggestion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config"
    file.write_text(HEAD + "xyzzy: 1\n")
    assert main(["check-config", str(file)]) == 1
    assert "did you mean" not in capsys.readouterr().err
