"""What a run costs the machine: CPU of scheduler, API server and etcd, and how long the scheduler paused at most."""

from __future__ import annotations

import asyncio
import re
import time

from e2e.bench.measurement import Spent
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.processes import Usage
from e2e.subject import Scheduler

_MAX_STEP = re.compile(r"^tandem_longest_step_seconds (\S+)$", re.MULTILINE)
_MAX_STEP_AT = re.compile(r"^tandem_longest_step_timestamp_seconds (\S+)$", re.MULTILINE)


class Meter:
    """Reads the counters where the clock begins and where it ends."""

    def __init__(self, scheduler: Scheduler, controlplane: ControlPlane) -> None:
        self.scheduler = scheduler
        self._controlplane = controlplane
        self._before: tuple[Usage, Usage, Usage] | None = None
        self._began_at = 0.0
        """As Unix time."""

    def begin(self) -> None:
        """The clock begins. The scheduler is not asked anything: its pages may not be there yet."""
        self._began_at = time.time()
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
        longest = await asyncio.to_thread(longest_step_of, self.scheduler)
        pause, at = longest if longest is not None else (None, None)
        return Spent(scheduler, apiserver, etcd, after[0].peak_rss_bytes, pause, at is not None and at < self._began_at)

    def _usages(self) -> tuple[Usage, Usage, Usage]:
        return (
            self.scheduler.usage(),
            self._controlplane.usage("kube-apiserver"),
            self._controlplane.usage("etcd"),
        )


def longest_step_of(scheduler: Scheduler) -> tuple[float, float | None] | None:
    """``longest_step`` of the scheduler's metrics; None of one that has no such series."""
    return longest_step(scheduler.get("/metrics")[1]) if scheduler.kind.split()[0] == "tandem" else None


def longest_step(page: str) -> tuple[float, float | None] | None:
    """From a page of metrics: seconds of the longest step since the start, and when it ended, as Unix time. None if the
    page does not say it."""
    seconds, at = _MAX_STEP.search(page), _MAX_STEP_AT.search(page)
    return None if seconds is None else (float(seconds[1]), None if at is None else float(at[1]))
