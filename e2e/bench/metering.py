"""What a run costs the machine: CPU of scheduler, API server and etcd, and how long the scheduler paused at most."""

from __future__ import annotations

import asyncio
import re

from e2e.bench.measurement import Spent
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.processes import Usage
from e2e.subject import Scheduler

_MAX_STEP = re.compile(r"^tandem_longest_step_seconds (\S+)$", re.MULTILINE)


class Meter:
    """Reads the counters where the clock begins and where it ends."""

    def __init__(self, scheduler: Scheduler, controlplane: ControlPlane) -> None:
        self.scheduler = scheduler
        self._controlplane = controlplane
        self._before: tuple[Usage, Usage, Usage] | None = None
        self._pause_before: float | None = None

    async def begin(self) -> None:
        self._pause_before = await self._longest_pause()
        self._before = self._usages()

    @property
    def cpu_before(self) -> float:
        """CPU seconds of the scheduler from the start of its process to `begin`."""
        assert self._before is not None
        return self._before[0].cpu_seconds

    async def end(self) -> Spent:
        """What was spent since `begin`."""
        assert self._before is not None
        after = self._usages()
        scheduler, apiserver, etcd = (
            new.cpu_seconds - old.cpu_seconds for old, new in zip(self._before, after, strict=True)
        )
        pause = await self._longest_pause()
        is_from_before = pause is not None and pause == self._pause_before
        return Spent(scheduler, apiserver, etcd, after[0].peak_rss_bytes, pause, is_from_before)

    def _usages(self) -> tuple[Usage, Usage, Usage]:
        return (
            self.scheduler.usage(),
            self._controlplane.usage("kube-apiserver"),
            self._controlplane.usage("etcd"),
        )

    async def _longest_pause(self) -> float | None:
        """Seconds of the longest step since the start; None of a scheduler that does not tell."""
        if self.scheduler.kind.split()[0] != "tandem":
            return None
        _, page = await asyncio.to_thread(self.scheduler.get, "/metrics")
        return longest_step(page)


def longest_step(page: str) -> float | None:
    """The gauge's value on a page of metrics; None if it is not there."""
    found = _MAX_STEP.search(page)
    return None if found is None else float(found[1])
