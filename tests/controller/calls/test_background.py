"""Background parts of plugins, when a new configuration replaces them."""

from __future__ import annotations

import asyncio
from typing import Any

from scheduler.controller.calls.background import BackgroundCall, BackgroundParts, PluginInbox
from scheduler.controller.report.plugin_watch import PLUGIN_WATCH
from scheduler.controller.write.leadership import AlwaysHeld
from tests.controller.conftest import until


def part(name: str, said: list[str], may_end: asyncio.Event) -> BackgroundCall:
    """A part that runs until it is cancelled, and then has something to clear up until ``may_end``."""

    async def run(_inbox: PluginInbox) -> None:
        said.append(f"{name} began")
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
            said.append(f"{name} ended")

    return run


async def test_a_part_starts_when_the_one_that_it_replaces_has_ended() -> None:
    said, may_end = list[str](), asyncio.Event()
    inbox = PluginInbox(lambda _: (), lambda _: None)
    parts = BackgroundParts(inbox, {("default", "Old"): part("old", said, may_end)}, AlwaysHeld())
    parts.start()
    await until(lambda: said == ["old began"])

    parts.replace({("default", "New"): part("new", said, may_end)})
    for _ in range(10):
        await asyncio.sleep(0)
    assert said == ["old began"]

    may_end.set()
    await until(lambda: "new began" in said)
    await parts.stop()
    assert said == ["old began", "old ended", "new began", "new ended"]


async def test_a_part_that_raises_is_counted_and_in_the_log_with_its_traceback(log_lines: list[dict[str, Any]]) -> None:
    async def raising(_inbox: PluginInbox) -> None:
        raise LookupError("no such train")

    inbox = PluginInbox(lambda _: (), lambda _: None)
    parts = BackgroundParts(inbox, {("default", "RaisingInRun"): raising}, AlwaysHeld())
    parts.start()
    await until(lambda: PLUGIN_WATCH.errors["RaisingInRun", "Run"] == 1)
    await parts.stop()
    (line,) = [line for line in log_lines if line["event"] == "Plugin failed"]
    assert (line["plugin"], line["point"], line["profile"], line["again_in"]) == ("RaisingInRun", "Run", "default", 1.0)
    assert isinstance(line["exc_info"], LookupError)
