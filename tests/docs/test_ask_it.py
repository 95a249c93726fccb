"""docs/ask-it.md shows what the commands really print: each is run against a scheduler that knows its cluster."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from scheduler.cli.main import main
from scheduler.cli.objects_file import engine_of, read_objects
from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.questions import Questions
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.engine.questions.trial import Basis

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "ask-it.md"
COLUMNS = 100
SHOWN = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def lines(text: str) -> list[str]:
    """Without colours and trailing spaces; empty lines do not count."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [line.rstrip() for line in plain.splitlines() if line.strip()]


async def run(command: str, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What the command prints, asked of a scheduler that has seen ``docs/ask-it/cluster.yaml``."""
    engine, _ = engine_of(read_objects(str(ROOT / "docs" / "ask-it" / "cluster.yaml")))
    questions = Questions(engine, read_clock, lambda text: lambda: Basis(build_profiles(load(text))))
    server = HealthServer(
        ServingSettings("127.0.0.1", 1),
        SchedulerMetrics().registry,
        ready_checks={},
        routes=questions.routes(),
    )
    await server.start_on(0)
    words = [str(ROOT / word) if word.startswith("docs/") else word for word in shlex.split(command)[1:]]
    if "--from" not in words:
        words += ["--server", f"http://127.0.0.1:{server.port}"]
    try:
        code = await asyncio.to_thread(main, words)
    finally:
        await server.close()
    printed = capfd.readouterr()
    assert code == 0, printed.err
    return lines(printed.out)


def test_the_page_shows_every_command_that_asks() -> None:
    shown = " ".join(command for command, _ in SHOWN)
    for words in ("what-if", "--drain", "--add-nodes", "--max", "--from", "--what-helps", "tandem capacity"):
        assert words in shown


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
async def test_each_command_prints_what_the_page_shows(
    command: str, output: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    assert await run(command, capfd) == lines(output)
