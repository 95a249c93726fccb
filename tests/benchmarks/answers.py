"""Questions to a scheduler that runs, from the start of the command's process to its end: 5,000 nodes, 5,000 waiting
pods."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from scheduler.simulate.apiserver.kinds import NAMESPACES, NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from scheduler.testing.documents import node_json, pod_json
from tests.benchmarks.start import BARE

NODE_COUNT, WAITING = 5_000, 5_000
ROUNDS = 5
DECIDED_SECONDS = 240.0


def answers() -> dict[str, float]:
    """Medians of seconds of wall time, and beside them that of importing numpy and aiohttp, which says how fast the
    machine is just now. A first round, which fills caches, is left out."""
    return asyncio.run(_answers())


async def _answers() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with EmbeddedCluster(kubelet=None, controllers=False) as cluster:
            _fill(cluster)
            async with ShippedScheduler(cluster.kubeconfig(folder / "kubeconfig"), folder / "log") as shipped:
                await _all_decided(shipped)
                manifest = folder / "pod.json"
                document = pod_json("asked", cpu="1")
                manifest.write_bytes(msgspec.json.encode(document))
                server = ("--server", shipped.url)
                asked: dict[str, tuple[str, ...]] = {
                    "import numpy, aiohttp": BARE,
                    "why": ("-m", "scheduler", "why", "w7", *server),
                    "queue": ("-m", "scheduler", "queue", *server),
                    "what-if": ("-m", "scheduler", "what-if", "-f", str(manifest), *server),
                }
                found: dict[str, list[float]] = {each: [] for each in asked}
                for number in range(ROUNDS + 1):
                    for each, words in asked.items():
                        seconds = await asyncio.to_thread(_seconds_of, words)
                        if number:
                            found[each].append(seconds)
                return {each: statistics.median(seconds) for each, seconds in found.items()}


def _fill(cluster: EmbeddedCluster) -> None:
    cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
    for number in range(NODE_COUNT):
        cluster.registry.create(NODES, "", node_json(f"n{number}", cpu="8"))
    for number in range(WAITING):
        cluster.registry.create(PODS, "default", pod_json(f"w{number}", cpu="9"))


async def _all_decided(shipped: ShippedScheduler) -> None:
    async with asyncio.timeout(DECIDED_SECONDS):
        while True:
            page: dict[str, Any] = await shipped.queue()
            if page.get("counts", {}).get("unschedulable") == WAITING:
                return
            await asyncio.sleep(0.5)


def _seconds_of(words: tuple[str, ...]) -> float:
    """Raises CalledProcessError for a question that was not answered."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], capture_output=True, check=True)
    return time.perf_counter() - began
