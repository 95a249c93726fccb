"""Servers that are not Tandem, or another version of it: an error in one line, never a traceback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from scheduler.cli.main import main
from tests.cli.test_connection import Recording, serving
from tests.cli.test_watching import EMPTY, Changing, line_of, watching

COMMANDS = (
    ["why", "default/p"],
    ["why", "deploy/web"],
    ["why", "default/p", "--what-helps"],
    ["queue"],
    ["queue", "--pods"],
    ["what-if", "--drain", "n"],
    ["capacity"],
    ["nodes"],
    ["nodes", "n"],
    ["decisions"],
)
SHAPELESS = b'{"pods": 3, "pod": 4, "placed": 1, "pending": 1, "placements": 3, "waiting": 1, "counts": 2}'


async def _asked(body: bytes, words: list[str]) -> tuple[int, Recording]:
    async with serving(Recording(web.Response(body=body))) as server:
        return await asyncio.to_thread(main, [*words, "--server", server.url]), server


@pytest.mark.parametrize("body", [b"{}", SHAPELESS])
async def test_an_answer_of_another_form_is_said_to_be_one(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    for words in COMMANDS:
        code, _ = await _asked(body, words)
        errors = capsys.readouterr().err
        assert code == 1, words
        assert errors.endswith(": the answer has another form than this version reads; --json prints it as it is\n")


async def test_an_answer_of_another_form_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = await _asked(b"{}", ["queue", "--json"])
    assert (code, capsys.readouterr().out) == (0, "{}\n")


@pytest.mark.parametrize("body", [b"", b"{}", b"<html></html>"])
async def test_what_is_no_snapshot_is_written_into_no_file(
    body: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "state.tandem"
    code, _ = await _asked(body, ["snapshot", str(file)])
    assert (code, capsys.readouterr().err) == (1, "Error: /debug/snapshot: the answer is no snapshot\n")
    assert not file.exists()


async def test_a_watch_goes_on_after_an_answer_of_another_form_that_is_named_once() -> None:
    async with serving(Changing({}, {}, EMPTY)) as server, watching(server) as process:
        first, second = await line_of(process), await line_of(process)
    assert first.startswith("Error: /debug/queue?grouped=true: the answer has another form")
    assert second.startswith("---")


def test_a_snapshot_that_fails_leaves_no_file_in_the_way_of_the_next_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, kubeconfig = tmp_path / "state.tandem", tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
    )
    for _ in range(2):
        assert main(["snapshot", str(file), "--api", "--kubeconfig", str(kubeconfig)]) == 1
        assert "no answer from the API server" in capsys.readouterr().err
    assert not file.exists()
