"""``tandem ui`` over the wiring of production: a browser's requests, the port-forward, the token, the page."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from scheduler.cli.asking import Reaching
from scheduler.cli.connection import Access, Unanswered
from scheduler.cli.leader import READER
from scheduler.cli.main import main
from scheduler.cli.ui import MAX_BODY_BYTES, window
from scheduler.simulate.apiserver.kinds import NODES
from scheduler.simulate.ports import free_ports
from scheduler.testing.documents import node_json
from tests.cli.test_leader import LEADER, leading, requests
from tests.controller.serve.browser import browsing, needs_browser


@asynccontextmanager
async def open_window(folder: Path) -> AsyncIterator[str]:
    """The address that the command prints, without ``ui/``."""
    access = Reaching(kubeconfig=str(folder / "kubeconfig")).access()
    async with window(access, os.environ) as address:
        yield address.removesuffix("ui/")


async def fetch(
    url: str, method: str = "GET", body: bytes | io.BytesIO | None = None, **headers: str
) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.request(method, url, data=body, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_the_page_and_what_it_reads_come_through_the_leaders_pod(tmp_path: Path) -> None:
    async with leading(tmp_path) as cluster, open_window(tmp_path) as root:
        cluster.registry.create(NODES, "", node_json("n1", cpu="4"))
        async with aiohttp.ClientSession() as session, session.get(f"{root}ui/") as answer:
            assert "<title>Tandem</title>" in await answer.text()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            tag = answer.headers["ETag"]
        assert (await fetch(f"{root}ui/", "GET", None, **{"If-None-Match": tag}))[0] == 304
        status, text = await fetch(f"{root}debug/queue?limit=5")
        assert (status, json.loads(text)["pods"][0]["pod"]) == (200, "default/huge")
        question = json.dumps({"edits": [{"edit": "drain", "node": "n1"}]}).encode()
        status, text = await fetch(f"{root}debug/what-if", "POST", question, **{"Content-Type": "application/json"})
        assert (status, json.loads(text)["nodes"]) == (200, 1), text
        assert (await fetch(f"{root}debug/why/default/absent"))[0] == 404
        assert requests(cluster, "POST", f"/serviceaccounts/{READER}/token") == 1, "one token for several requests"


async def test_events_are_passed_on_as_they_come(tmp_path: Path) -> None:
    async with (
        leading(tmp_path),
        open_window(tmp_path) as root,
        aiohttp.ClientSession() as session,
        session.get(f"{root}debug/live") as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        async with asyncio.timeout(10):
            while b"event: queue" not in await answer.content.readline():
                pass


REFUSED: tuple[tuple[str, dict[str, str], int], ...] = (
    ("/ui/", {}, 404),
    ("/0123456789/ui/", {}, 404),
    ("{secret}/metrics", {}, 404),
    ("{secret}/debug/../metrics", {}, 404),
    ("{secret}/debug/%2e%2e/metrics", {}, 404),
    ("{secret}/ui/", {"Host": "evil.example"}, 403),
    ("{secret}/debug/queue", {"Sec-Fetch-Site": "cross-site"}, 403),
    ("{secret}/debug/queue", {"Sec-Fetch-Site": "same-site"}, 403),
    ("{secret}/debug/queue", {"Origin": "http://evil.example"}, 403),
)


async def test_who_does_not_know_the_address_or_comes_from_another_site_gets_nothing(tmp_path: Path) -> None:
    async with leading(tmp_path) as cluster, open_window(tmp_path) as root:
        host, _, secret = root.removeprefix("http://").rstrip("/").partition("/")
        for path, headers, status in REFUSED:
            answer = await raw(host, path.replace("{secret}", f"/{secret}"), headers)
            assert int(answer.split()[1]) == status, path
        assert requests(cluster, "GET", "/portforward") == 0


async def raw(host: str, path: str, headers: dict[str, str]) -> str:
    """The status line for a request whose path is sent as it is."""
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    fields = {"Host": host, "Connection": "close", **headers}
    head = "".join(f"{field}: {value}\r\n" for field, value in fields.items())
    writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
    line = (await reader.readline()).decode()
    writer.close()
    await writer.wait_closed()
    return line


async def test_bodies_are_bounded_and_a_scheduler_that_is_gone_is_said(tmp_path: Path) -> None:
    async with leading(tmp_path) as cluster, open_window(tmp_path) as root:
        assert (await fetch(f"{root}debug/what-if", "POST", io.BytesIO(b"x" * (MAX_BODY_BYTES + 1))))[0] == 413
        assert (await fetch(f"{root}debug/queue", "DELETE"))[0] == 405
        port = cluster.server.pod_ports.pop(LEADER)
        status, text = await fetch(f"{root}debug/queue")
        assert status == 502
        assert "pod tandem-system/tandem-0" in json.loads(text)["message"]
        cluster.server.pod_ports[LEADER] = port
        assert (await fetch(f"{root}debug/queue"))[0] == 200


async def test_without_a_leader_the_command_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with leading(tmp_path):
        words = ["ui", "--scheduler", "tandem-system/another", f"--kubeconfig={tmp_path / 'kubeconfig'}"]
        assert await asyncio.to_thread(main, words) == 1
        assert "the scheduler's Lease tandem-system/another can't be read" in capfd.readouterr().err


async def test_a_server_that_is_not_there_is_said_at_once_and_not_only_to_the_browser() -> None:
    access = Access(server=f"http://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(Unanswered, match=r"Is the scheduler running\?"):
        async with window(access, {}):
            pass


@needs_browser
async def test_a_browser_shows_the_page_under_the_random_address(tmp_path: Path) -> None:
    async with leading(tmp_path) as cluster, open_window(tmp_path) as root:
        cluster.registry.create(NODES, "", node_json("n1", cpu="4"))
        async with browsing(root.rstrip("/")) as browser:
            await browser.go("")
            await browser.page.locator("main", has_text="nodes 1").wait_for()
            await browser.go("pod/default/huge")
            await browser.page.locator("main", has_text="Insufficient cpu").wait_for()
            await browser.page.locator("#live", has_text="live").wait_for()
            assert browser.errors == []
