"""Plugins' blocking calls in threads that do not return: the scheduler's own blocking calls go on."""

from __future__ import annotations

import asyncio
import threading

from scheduler.cluster.pod_info import PodInfo
from scheduler.controller.calls.background import BackgroundParts, PluginInbox
from scheduler.controller.calls.plugin_calls import PluginCalls
from scheduler.controller.threads import Threads
from scheduler.controller.write.leadership import AlwaysHeld
from scheduler.messages.commands import RunPlugin
from scheduler.testing.objects import pod
from tests.controller.conftest import until
from tests.limits import WAIT_SECONDS

MANY = 64
"""More than an event loop has threads."""


async def test_names_are_resolved_and_configurations_read_while_calls_of_plugins_hang() -> None:
    loop, returns = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(Threads())
    begun: list[str] = []

    async def pre_bind(pod: PodInfo, _node: str) -> None:
        begun.append(pod.name)
        await asyncio.to_thread(returns.wait)

    async def run(_inbox: PluginInbox) -> None:
        begun.append("background")
        await asyncio.gather(*[asyncio.to_thread(returns.wait) for _ in range(MANY)])

    calls = PluginCalls(lambda _: None, AlwaysHeld(), {("s", "PreBind", "Slow"): pre_bind})
    inbox = PluginInbox(lambda _: (), lambda _: None)
    parts = BackgroundParts(inbox, {("s", "Slow"): run}, AlwaysHeld())
    try:
        parts.start()
        for number in range(MANY):
            calls.submit(RunPlugin(number + 1, "PreBind", "s", "Slow", PodInfo(pod(f"p{number}")), "n"))
        async with asyncio.timeout(WAIT_SECONDS):
            await until(lambda: len(begun) > MANY)
            assert await loop.getaddrinfo("localhost", 443)
            assert await asyncio.to_thread(int, "1") == 1
    finally:
        returns.set()
        await calls.close()
        await parts.stop()
