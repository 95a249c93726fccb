"""``tandem queue --watch`` as a process, against a server whose page changes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
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


async def test_the_queue_is_printed_again_when_it_has_changed_and_a_failure_is_named_once() -> None:
    async with serving(Changing(EMPTY, EMPTY, None, None, ONE)) as server:
        command = [sys.executable, "-m", "scheduler", "queue", "--watch", "--interval=0.01", "--server", server.url]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        assert process.stdout is not None
        lines: list[str] = []
        async with asyncio.timeout(WAIT_SECONDS):
            while "active 1" not in lines:
                line = await process.stdout.readline()
                assert line, lines
                lines.append(line.decode().strip())
            process.send_signal(signal.SIGINT)
            rest = await process.stdout.read()
            code = await process.wait()
    shown = [line for line in lines if not line.startswith("---")]
    assert shown == ["active 0", "No pod waits.", "Error: broken", "active 1"]
    assert sum(line.startswith("---") for line in lines) == 2, "two pages of the five answers"
    assert "Traceback" not in rest.decode() and code == 130
    assert set(server.paths) == {"/debug/queue?grouped=true"}
