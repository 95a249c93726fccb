"""YAML made to break its reader, wherever a command takes a file: refused in one line, at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.cli.main import main
from tests.limits import WAIT_SECONDS

TOO_DEEP = "[" * 100_000
"""The composer recurses as deep as that, on the stack of the C library."""
TOO_MANY = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 11)
)
TOO_MANY_MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}\n" for level in range(1, 11)
)
DEEP = "the text is nested deeper than 100 levels (line 1, column 101)"
MANY = "the text holds more than 100000 values"


@pytest.mark.parametrize(
    ("text", "reason"), [(TOO_DEEP, DEEP), (TOO_MANY, MANY), (TOO_MANY_MERGED, MANY)], ids=["deep", "many", "merged"]
)
def test_a_file_that_is_too_deep_or_stands_for_too_much_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    """In a separate process, with a limit of memory: an overflow of the C stack raises no exception."""
    file = tmp_path / "file.yaml"
    file.write_text(text)
    script = (
        "import resource, sys; from scheduler.cli.main import main; "
        "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32)); f = sys.argv[1]; "
        "print(main(['what-if', '--from', f, '--drain', 'a']), main(['why', 'a', '--kubeconfig', f]), "
        "main(['snapshot', '--api', '--kubeconfig', f, f + '.snapshot']))"
    )
    command = [sys.executable, "-c", script, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS * 4, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["1"] * 3), done.stderr
    assert done.stderr.splitlines() == [
        f"Error: --from: {file}: {reason}",
        f"Error: kubeconfig {file}: {reason}",
        f"Error: kubeconfig {file}: {reason}",
    ]


@pytest.mark.parametrize("depth", [2_000, 100_000])
@pytest.mark.parametrize("text", ['{"kind": "List", "items": [%s]}', '{"kind": "Pod", "metadata": {"labels": %s}}'])
def test_json_that_is_nested_too_deep_is_refused_in_words(
    text: str, depth: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "objects.json"
    file.write_text(text % ("[" * depth + "]" * depth))
    for words in (["why", "a"], ["queue"], ["capacity"], ["what-if", "--drain", "n"]):
        assert main([*words, "--from", str(file)]) == 1
        assert capfd.readouterr().err == f"Error: --from: {file}: the JSON is nested too deep\n"


@pytest.mark.parametrize("words", [["run"], ["why", "a"]])
def test_a_kubeconfig_that_is_no_yaml_is_refused_in_one_line(words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text('users: "\nclusters: {')
    command = [sys.executable, "-m", "scheduler", *words, "--kubeconfig", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS * 4, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"kubeconfig {file}: is not YAML: while scanning a quoted scalar at line 1, column 8" in done.stderr
