"""``tandem queue --watch`` as a process, against a server whose page changes."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.cli.test_connection import Recording, serving
from tests.limits import WAIT_SECONDS

EMPTY = {"counts": {"active": 0}, "waiting": []}
ONE = {"counts": {"active": 1}, "waiting": []}


class Changing(Recording):
    """Answers with each page in turn, then with the last again; None is a 500."""

    def __init__(self, *pages: dict[str, Any] | None) -> None:
        super().__init__()
        self._pages = deque(pages)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.paths.append(request.path_qs)
        page = self._pages.popleft() if len(self._pages) > 1 else self._pages[0]
        return web.json_response({"error": "broken"}, status=500) if page is None else web.json_response(page)


@asynccontextmanager
async def watching(server: Recording, *flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """``tandem queue --watch`` as a process, which has ended when the block does."""
    command = [sys.executable, "-m", "scheduler", "queue", "--watch", "--interval=0.01", "--server", server.url]
    process = await asyncio.create_subprocess_exec(
        *command, *flags, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line, "it has ended"
    return line.decode().strip()


async def rest_of(process: asyncio.subprocess.Process) -> tuple[str, int]:
    """What else it says, and its exit code."""
    assert process.stdout is not None
    return (await process.stdout.read()).decode(), await process.wait()


async def test_the_queue_is_printed_again_when_it_has_changed_and_a_failure_is_named_once() -> None:
    async with serving(Changing(EMPTY, EMPTY, None, None, ONE)) as server, watching(server) as process:
        lines: list[str] = []
        while "active 1" not in lines:
            lines.append(await line_of(process))
        process.send_signal(signal.SIGINT)
        rest, code = await rest_of(process)
    shown = [line for line in lines if not line.startswith("---")]
    assert shown == ["active 0", "No pod waits.", "Error: broken", "active 1"]
    assert sum(line.startswith("---") for line in lines) == 2, "two pages of the five answers"
    assert "Traceback" not in rest and code == 130
    assert set(server.paths) == {"/debug/queue?grouped=true"}


async def test_as_json_each_change_of_the_queue_is_a_line() -> None:
    empty = {"counts": {"active": 0}, "pods": []}
    one = {"counts": {"active": 1}, "pods": []}
    async with serving(Changing(empty, empty, one)) as server, watching(server, "--json") as process:
        lines = [json.loads(await line_of(process)) for _ in range(2)]
    assert lines == [empty, one]
    assert set(server.paths) == {"/debug/queue"}


async def test_it_ends_without_a_traceback_when_what_reads_its_output_has_ended() -> None:
    pages = [{"counts": {"active": number}, "waiting": []} for number in range(1_000)]
    command = f"{sys.executable} -m scheduler queue --watch --interval=0.01 --server $0 | head -n 1"
    async with serving(Changing(*pages)) as server:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", command, server.url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(WAIT_SECONDS):
            printed, errors = await process.communicate()
    assert printed.startswith(b"---") and errors == b""
