"""Debian's Chromium, headless, which watches what a page does: errors, and requests to anywhere else."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
IS_DRIVEN = importlib.util.find_spec("playwright") is not None
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and IS_DRIVEN), reason="no browser: apt-get install chromium, and playwright of the test requirements"
)
WAIT_MILLISECONDS = 20_000
PICTURES = os.environ.get("PICTURES", "")
"""The folder in which the pictures of the docs are taken; "" takes none."""


class Watched:
    """A browser's page. ``errors``: what the console and the network complain about, and requests to elsewhere."""

    def __init__(self, page: Any, server: str) -> None:
        self.page = page
        self.server = server
        self.errors: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(f"raised: {error}"))
        page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith(f"{self.server}/"):
            self.errors.append(f"request to {request.url}")

    async def go(self, address: str) -> None:
        """Show a view, and wait for it."""
        await self.page.goto(f"{self.server}/ui/#/{address}")
        await self.page.wait_for_selector("main h2")

    async def text(self) -> str:
        found: str = await self.page.inner_text("main")
        return found

    async def picture(self, name: str) -> None:
        if PICTURES:
            await self.page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))

    async def overflows(self) -> bool:
        """Whether the page is wider than the window."""
        found: bool = await self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return found


@asynccontextmanager
async def browsing(server: str, width: int = 1100, height: int = 720, **options: Any) -> AsyncIterator[Watched]:
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        # Tests may run as root in a container, where Chromium's own sandbox can't be set up.
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            context = await browser.new_context(viewport={"width": width, "height": height}, **options)
            context.set_default_timeout(WAIT_MILLISECONDS)
            watched = Watched(await context.new_page(), server)
            yield watched
        finally:
            await browser.close()
