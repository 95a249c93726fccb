"""``tandem demo``: the embedded cluster, the real scheduler against it over HTTP, and a scripted workload.

The scheduler runs as a separate process, started with the usual command line. It needs nothing but Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import aiohttp
from rich.console import Console

import scheduler
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo_view import DemoView, LiveView, PlainView, drain_in_words
from scheduler.simulate.demo_workload import Scene, scenes
from scheduler.simulate.kubelet import KubeletSettings
from scheduler.simulate.ports import free_ports

READY_SECONDS: Final = 90.0
"""Seconds for the scheduler to get ready: the first start compiles all modules, on whatever machine this is."""
STOP_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 0.1
GATES: Final = "--feature-gates=GenericWorkload=true,GangScheduling=true"
DRAINED: Final = "node-big"
"""The node that the question at the end is about."""


class DemoFailure(Exception):
    """An expected result did not occur; the text names it, with lines of the scheduler's log."""


async def run_demo(console: Console, *, serve: bool, pause_seconds: float | None = None) -> int:
    """Runs the demo and returns the exit code: 0 if all scenes succeeded.

    ``pause_seconds`` between scenes; by default two on a terminal, and nearly none elsewhere. ``serve``: keeps the
    cluster running until interrupted.
    """
    is_live = console.is_terminal
    pause = pause_seconds if pause_seconds is not None else (2.0 if is_live else 0.1)
    with tempfile.TemporaryDirectory(prefix="tandem-demo-") as name:
        folder = Path(name)
        settings = KubeletSettings(start_seconds=0.3, stop_seconds=0.3, job_seconds=1.5, renews_leases=True)
        async with EmbeddedCluster(kubelet=settings) as cluster:
            kubeconfig = cluster.kubeconfig(folder / "kubeconfig")
            play = scenes()
            # The first scene is the setup: the Lease's namespace must exist before the scheduler starts.
            play[0].act(cluster.registry)
            async with ShippedScheduler(kubeconfig, folder / "scheduler.log", GATES) as shipped:
                view: DemoView = (LiveView if is_live else PlainView)(console, cluster.store, len(play))
                try:
                    with view:
                        for scene in play:
                            await _play(scene, cluster, shipped, view, pause)
                    await view.summarize(shipped.why)
                    await _ask(console, shipped)
                except DemoFailure as failure:
                    console.print(f"[bold red]Demo failed:[/bold red] {failure}")
                    console.print("".join(shipped.log_lines()[-15:]), markup=False, highlight=False)
                    return 1
                if serve:
                    await _serve(console, kubeconfig, shipped)
    return 0


async def _play(
    scene: Scene, cluster: EmbeddedCluster, shipped: ShippedScheduler, view: DemoView, pause: float
) -> None:
    view.begin(scene.title)
    if view.scene > 1:
        scene.act(cluster.registry)
    end = time.monotonic() + scene.seconds
    while True:
        view.refresh(await shipped.queue())
        if scene.is_over(cluster.registry):
            break
        if time.monotonic() > end:
            raise DemoFailure(f"{scene.title}: this did not happen within {scene.seconds:g} s")
        if shipped.has_ended:
            raise DemoFailure("the scheduler has ended")
        await asyncio.sleep(LOOK_SECONDS)
    explained = scene.explains(cluster.registry)
    view.end(await shipped.why(explained) if explained else {})
    rest = time.monotonic() + pause
    while time.monotonic() < rest:
        view.refresh(await shipped.queue())
        await asyncio.sleep(LOOK_SECONDS)


async def _ask(console: Console, shipped: ShippedScheduler) -> None:
    """Ask what a drain would lead to; nothing happens."""
    answer = await shipped.what_if({"edits": [{"edit": "drain", "node": DRAINED}]})
    if not answer:
        raise DemoFailure("the question what a drain would lead to was not answered")
    console.print(f"\nAsked: what if {DRAINED} were drained? (tandem what-if --drain {DRAINED})", highlight=False)
    console.print(f"  {drain_in_words(answer)}", markup=False, highlight=False, soft_wrap=True)


async def _serve(console: Console, kubeconfig: Path, shipped: ShippedScheduler) -> None:
    console.print(f"\nThe page: [bold]{shipped.url}/ui/[/bold]", highlight=False, soft_wrap=True)
    console.print("The cluster stays up until you press Ctrl-C. Try:", highlight=False)
    for line in (
        f"kubectl --kubeconfig {kubeconfig} get pods,nodes -o wide",
        f"kubectl --kubeconfig {kubeconfig} get events",
        f"tandem queue --server {shipped.url}",
        f"tandem why huge --server {shipped.url}",
        f"tandem what-if --drain {DRAINED} --server {shipped.url}",
        f"tandem capacity --server {shipped.url}",
    ):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    # Ctrl-C is the normal end.
    with contextlib.suppress(asyncio.CancelledError):
        await shipped.ended()
        console.print("The scheduler has ended.")


class ShippedScheduler:
    """``python -m scheduler run`` as a process, running within an ``async with`` block."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str, scheme: str = "http", pod: str = "") -> None:
        """``pod``: NAMESPACE/NAME of the pod that it takes itself for; "" for none."""
        self._kubeconfig = kubeconfig
        self._log = log
        self._flags = ("--serving-http", *flags) if scheme == "http" else flags
        self._pod = pod
        (self.port,) = free_ports(1)
        self.url = f"{scheme}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> ShippedScheduler:
        command = [sys.executable, "-m", "scheduler", "run", "--kubeconfig", str(self._kubeconfig)]
        command += ["--bind-address=127.0.0.1", f"--secure-port={self.port}", "--logging-format=text"]
        command += self._flags
        root = str(Path(scheduler.__file__).parent.parent)
        namespace, _, name = self._pod.partition("/")
        own_pod = {"POD_NAMESPACE": namespace, "POD_NAME": name, "POD_UID": name} if name else {}
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path, **own_pod},
                # Ctrl-C goes to the demo, which then stops the scheduler.
                start_new_session=True,
            )
        self._session = aiohttp.ClientSession(
            trust_env=False, timeout=aiohttp.ClientTimeout(total=5.0), connector=aiohttp.TCPConnector(ssl=False)
        )
        try:
            await self._wait_until_ready()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._session.close()
        if not self.has_ended:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()

    @property
    def has_ended(self) -> bool:
        return self.exit_code is not None

    @property
    def exit_code(self) -> int | None:
        """The process's exit code; None while it runs."""
        return self._process.returncode

    async def ended(self) -> None:
        await self._process.wait()

    def log_lines(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines(keepends=True)

    async def queue(self) -> dict[str, Any]:
        """The queue's page, {} without an answer."""
        return await self._page("/debug/queue")

    async def why(self, pod: str) -> dict[str, Any]:
        """The page of a pod or a group, {} for an unknown one."""
        return await self._page(f"/debug/why/{pod}")

    async def what_if(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question, {} without one."""
        try:
            async with self._session.post(self.url + "/debug/what-if", json=question) as answer:
                found: dict[str, Any] = await answer.json() if answer.status == 200 else {}
                return found
        except (aiohttp.ClientError, TimeoutError):
            return {}

    async def _page(self, path: str) -> dict[str, Any]:
        try:
            async with self._session.get(self.url + path) as answer:
                page: dict[str, Any] = await answer.json() if answer.status == 200 else {}
                return page
        except (aiohttp.ClientError, TimeoutError):
            return {}

    async def _wait_until_ready(self) -> None:
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and not self.has_ended:
            try:
                async with self._session.get(f"{self.url}/readyz") as answer:
                    if answer.status == 200:
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(LOOK_SECONDS)
        what = f"has ended with code {self.exit_code}" if self.has_ended else f"was not ready after {READY_SECONDS:g} s"
        lines = "".join(self.log_lines()[-15:]).rstrip()
        raise DemoFailure(f"the scheduler {what}" + (f":\n{lines}" if lines else ", and has logged nothing"))
