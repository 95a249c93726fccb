"""Lists in pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from scheduler.controller.watch.pages import Pages
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.errors import ApiError
from tests.controller.write.test_client import client_of, serving
from tests.controller.write.test_credentials import kubeconfig


async def test_a_list_without_end_is_an_error_after_its_pages_and_the_next_list_begins_again(tmp_path: Path) -> None:
    async def endless(_: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"continue": "more"}, "items": []})

    async with (
        serving(endless) as url,
        client_of(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", url))) as client,
    ):
        pages = Pages(client, "/api/v1/pods", {}, 500, max_pages=2)
        for _ in range(2):
            await pages.request("")
            await pages.request("more")
            with pytest.raises(ApiError, match="the list has more than 2 pages"):
                await pages.request("more")
