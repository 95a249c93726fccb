"""Options of commands: what a command line means, and what is said about one that is wrong."""

from __future__ import annotations

import io
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
from rich.console import Console

from scheduler.cli.commands import COMMANDS
from scheduler.cli.help import show_command_help, show_help
from scheduler.cli.main import main
from scheduler.cli.options import (
    Options,
    WrongOptions,
    argument,
    declared_by,
    either,
    one_of,
    option,
    options,
    read_options,
    seconds,
    switch,
    whole,
)
from scheduler.cli.queue import QueueOptions
from scheduler.cli.why import WhyOptions


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True, kw_only=True)
class Common(Options):
    server: str = option("--server", "-s", metavar="URL", help="Where.")


@dataclass(frozen=True, kw_only=True)
class Example(Common):
    target: Path = argument("TARGET", "What.", reads=Path)
    size: Size = argument("[SIZE]", "How large.", default=Size.SMALL, reads=one_of(Size))
    count: int = option("--count", metavar="N", help="How many.", default=1, reads=whole(1, 9))
    every: float = option("--every", metavar="SECONDS", help="How often.", default=2.0, reads=seconds(0.1))
    files: tuple[str, ...] = options("--file", "-f", metavar="FILE", help="Which.")
    loud: bool = switch("--loud", "-l", help="Loud.")
    wide: bool | None = either("--wide", "Wide.")


def read(line: str) -> Example:
    return read_options(Example, line.split())


def test_what_is_not_given_has_its_default() -> None:
    assert read("x") == Example(target=Path("x"))
    assert (read("x").count, read("x").files, read("x").wide) == (1, (), None)


@pytest.mark.parametrize(
    "line",
    [
        "x large --server u -f a -f b --loud --no-wide --count=3 --every 0.5",
        "--loud --no-wide x -s u --count 3 -fa large -f b --every=0.5",
        "-lsu -f=a --file b --no-wide --count 3 --every 0.5 -- x large".replace("-f=a", "-fa"),
    ],
)
def test_options_and_arguments_come_in_any_order_and_in_every_usual_spelling(line: str) -> None:
    whole_example = Example(
        target=Path("x"), size=Size.LARGE, server="u", count=3, every=0.5, files=("a", "b"), loud=True, wide=False
    )
    assert read(line) == whole_example


def test_a_dash_alone_is_a_value_and_what_follows_two_is_an_argument() -> None:
    assert read("x -f -").files == ("-",)
    assert read("-- -x").target == Path("-x")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "Missing argument: TARGET"),
        ("x large y", 'Unexpected argument: "y"'),
        ("x larg", '[SIZE]: "larg" must be one of small, large (did you mean "large"?)'),
        ("x --cuont 1", 'No such option: --cuont (did you mean "--count"?)'),
        ("x --serv u", "No such option: --serv"),
        ("x --count 10", '--count: "10" must be a whole number from 1 to 9'),
        ("x --count many", '--count: "many" must be a whole number from 1 to 9'),
        ("x --every nan", '--every: "nan" must be a number of seconds, at least 0.1'),
        ("x --every inf", '--every: "inf" must be a number of seconds, at least 0.1'),
        ("x --count", "--count: expected one argument"),
        ("x --loud=yes", "--loud/-l: ignored explicit argument 'yes'"),
    ],
)
def test_a_wrong_line_is_refused_with_what_is_wrong_in_it(line: str, said: str) -> None:
    with pytest.raises(WrongOptions) as caught:
        read(line)
    assert str(caught.value).startswith(said)


def test_the_command_line_says_where_help_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", "--wtch"], name="kubectl tandem") == 1
    assert capsys.readouterr().err == (
        "Error: No such option: --wtch (did you mean \"--watch\"?). Try 'kubectl tandem queue --help' for help.\n"
    )
    assert main(["qeue"]) == 1
    assert capsys.readouterr().err == 'Error: No such command: "qeue" (did you mean "queue"?). ' + (
        "Try 'tandem --help' for help.\n"
    )


def test_the_commands_that_ask_have_the_same_options_under_the_same_names() -> None:
    def flags(kind: type[Options]) -> set[str]:
        return {flag for _, _, one in declared_by(kind) for flag in one.flags}

    asking = {"--kubeconfig", "--context", "--scheduler", "--server", "--server-ca", "--from", "--until", "--json"}
    for name in ("why", "queue", "what-if", "capacity"):
        assert asking <= flags(next(one for one in COMMANDS if one.name == name).options())
    assert "-A" in flags(QueueOptions) and "--what-helps" in flags(WhyOptions)


@pytest.mark.parametrize("name", [one.name for one in COMMANDS if not one.reads_words])
def test_each_help_page_has_every_option_within_80_columns(name: str) -> None:
    command = next(one for one in COMMANDS if one.name == name)
    file = io.StringIO()
    show_command_help(command, "tandem", Console(file=file, width=80))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for _, _, one in declared_by(command.options()):
        assert all(flag in text for flag in one.flags)
        assert " ".join(one.help.split()[:2]).replace("[bold]", "") in " ".join(text.split())


def test_the_help_has_every_command() -> None:
    file = io.StringIO()
    show_help("tandem", Console(file=file, width=80))
    assert all(f" {one.name} " in file.getvalue() for one in COMMANDS)
    assert max(map(len, file.getvalue().splitlines())) <= 80


@pytest.mark.parametrize("words", [[], ["--help"], ["why", "--help"], ["why", "-h"]])
def test_help_is_no_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert "Usage:" in capsys.readouterr().out


def test_the_help_of_a_command_without_options_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: tandem version\n" in shown and "kube-scheduler" in shown


def test_kubectl_s_way_to_ask_for_json_is_answered_with_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", "-o", "json"]) == 1
    assert capsys.readouterr().err.startswith('Error: No such option: -o (did you mean "--json"?).')
