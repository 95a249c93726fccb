"""The longest step of the pages' own work at 5,000 nodes with 10,000 running and 10,000 waiting pods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from scheduler import testing
from scheduler.controller import garbage
from scheduler.controller.report.engine_gauges import GaugesOfEngine
from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.exposition import exposition
from scheduler.engine.commands import RecordAttempt
from scheduler.engine.explain import pod_page
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import kind_of
from tests.engine.driver import Cluster

NODES, RUNNING, WAITING = 5_000, 10_000, 10_000
ATTEMPTS = 200


def pages() -> dict[str, float]:
    """Milliseconds of CPU of the longest step: the second page asked for of two, since the first fills caches."""
    cluster = Cluster()
    engine, now = cluster.engine, cluster.now
    metrics = SchedulerMetrics()
    metrics.watch_engine(GaugesOfEngine(engine))
    for number in range(NODES):
        node = testing.node(f"n{number}", cpu="4", memory="32Gi", zone=f"z{number % 3}")
        engine.handle(ObjectObserved(kind_of(node), node), now)
    for number in range(RUNNING):
        labels = {"app": f"a{number % 50}"}
        pod = testing.pod(f"r{number}", cpu="2", memory="1Gi", node=f"n{number % NODES}", labels=labels)
        engine.handle(ObjectObserved(kind_of(pod), pod), now)
    for number in range(WAITING):
        pod = testing.pod(f"w{number}", cpu=f"{number % 4 + 5}", labels={"app": "w"})
        engine.handle(ObjectObserved(kind_of(pod), pod), now)
    preemptor = testing.pod("preemptor", cpu="4", priority=1000)
    engine.handle(ObjectObserved(kind_of(preemptor), preemptor), now)
    engine.handle(Synced(), now)
    # As in production after the first lists: a walk over all of the cluster is no step of a page.
    garbage.collect_seldom()
    garbage.keep_what_is_there()
    for _ in range(ATTEMPTS):
        for command in engine.schedule_one(now) or ():
            if isinstance(command, RecordAttempt):
                metrics.observe(command.attempt)

    async def why(key: str) -> None:
        pod_page(engine, key, now)

    async def scrape() -> None:
        await exposition(metrics.registry)

    asked: dict[str, Callable[[], Awaitable[None]]] = {
        "why a pod waits": lambda: why("default/w7"),
        "why a pod waits that was not tried yet": lambda: why(f"default/w{WAITING - 1}"),
        "why a preemptor waits": lambda: why("default/preemptor"),
        "why a pod runs where it does": lambda: why("default/r7"),
        "metrics": scrape,
    }
    return {name: 1e3 * asyncio.run(_longest_step(ask)) for name, ask in asked.items()}


async def _longest_step(ask: Callable[[], Awaitable[None]]) -> float:
    """Seconds of CPU of the longest time that nothing else ran."""
    await ask()
    longest = 0.0
    is_over = False

    async def watch() -> None:
        nonlocal longest
        before = time.process_time()
        while not is_over:
            await asyncio.sleep(0)
            now = time.process_time()
            longest, before = max(longest, now - before), now

    watching = asyncio.ensure_future(watch())
    await asyncio.sleep(0)
    await ask()
    is_over = True
    await watching
    return longest
