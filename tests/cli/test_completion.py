"""Completion in bash, zsh and fish, and under kubectl: of every command, with its own flags."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.cli.completion import Shell, candidates, kubectl_lines, script
from scheduler.cli.flags import FLAGS

KNOWN = candidates()


def shell(name: str, text: str, *, options: tuple[str, ...] = ()) -> list[str]:
    """What a shell without the user's own files prints. Skips where there is no such shell."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"there is no {name} here")
    done = subprocess.run([program, *options, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_every_command_and_its_flags_are_candidates() -> None:
    assert {"run", "why", "queue", "completion"} <= {name for name, _ in KNOWN[""]}
    assert "--namespace" in dict(KNOWN["why"])
    assert {name for name, _ in KNOWN["run"]} == {f"--{flag.name}" for flag in FLAGS if not flag.no_meaning}


def test_bash_completes_commands_and_flags(tmp_path: Path) -> None:
    (tmp_path / "tandem.bash").write_text(script(Shell.BASH, KNOWN))

    def completed(*words: str) -> list[str]:
        line = " ".join(f'"{word}"' for word in words)
        text = f"source {tmp_path}/tandem.bash; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _tandem; "
        return shell("bash", text + 'printf "%s\\n" "${COMPREPLY[@]}"', options=("--norc",))

    assert completed("tandem", "ch") == ["check-config"]
    assert completed("tandem", "why", "--na") == ["--namespace"]
    assert completed("tandem", "run", "--shad") == ["--shadow"]


def test_zsh_reads_the_script_and_defines_the_completion(tmp_path: Path) -> None:
    (tmp_path / "_tandem").write_text(script(Shell.ZSH, KNOWN))
    text = f"autoload -U compinit; compinit -u -d {tmp_path}/dump; source {tmp_path}/_tandem; print $_comps[tandem]"
    assert shell("zsh", text, options=("-f",)) == ["_tandem"]


def test_zsh_offers_the_flags_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "_tandem").write_text(script(Shell.ZSH, KNOWN))
    # Outside of a line editor the helper that shows the candidates is replaced, and what it is given is printed.
    text = f"compdef() {{ :; }}; source {tmp_path}/_tandem; _describe() {{ print -l -- $entries; }}; "
    text += "words=(tandem why --n); CURRENT=3; _tandem"
    assert any(line.startswith("--namespace:") for line in shell("zsh", text, options=("-f",)))


def test_fish_completes_commands_and_flags(tmp_path: Path) -> None:
    file = tmp_path / "tandem.fish"
    file.write_text(script(Shell.FISH, KNOWN))
    options = ("--no-config",)
    commands = shell("fish", f"source {file}; complete -C 'tandem ch'", options=options)
    assert [line.split("\t")[0] for line in commands] == ["check-config"]
    flags = shell("fish", f"source {file}; complete -C 'tandem why --na'", options=options)
    assert [line.split("\t")[0] for line in flags] == ["--namespace"]


def test_kubectl_gets_the_completions_that_fit_and_no_file_names() -> None:
    assert [line.split("\t")[0] for line in kubectl_lines(KNOWN, ["why"])] == ["why", ":4"]
    assert [line.split("\t")[0] for line in kubectl_lines(KNOWN, ["why", "--na"])] == ["--namespace", ":4"]
    assert kubectl_lines(KNOWN, ["nothing", "x"]) == [":4"]


@pytest.mark.parametrize("name", list(Shell))
def test_the_command_prints_the_script(name: Shell) -> None:
    command = [sys.executable, "-m", "scheduler", "completion", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, script(name, KNOWN) + "\n")
