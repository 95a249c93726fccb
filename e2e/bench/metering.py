"""What a run costs the machine: CPU of scheduler, API server and etcd, and how long the scheduler paused at most."""

from __future__ import annotations

import asyncio
import re
import time
from typing import NamedTuple

from e2e.bench.measurement import Pause, Spent
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.processes import Usage
from e2e.subject import Scheduler

_MAX_STEP = re.compile(r"^tandem_longest_step_seconds (\S+)$", re.MULTILINE)
_MAX_STEP_CPU = re.compile(r"^tandem_longest_step_cpu_seconds (\S+)$", re.MULTILINE)
_MAX_STEP_AT = re.compile(r"^tandem_longest_step_timestamp_seconds (\S+)$", re.MULTILINE)


class LongestStep(NamedTuple):
    """Since the scheduler's start: seconds of the longest step, the most CPU seconds of one, and when the former ended,
    as Unix time. None: not said."""

    seconds: float
    cpu_seconds: float | None = None
    at: float | None = None


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
        return Spent(scheduler, apiserver, etcd, after[0].peak_rss_bytes, pause_since(longest, self._began_at))

    def _usages(self) -> tuple[Usage, Usage, Usage]:
        return (
            self.scheduler.usage(),
            self._controlplane.usage("kube-apiserver"),
            self._controlplane.usage("etcd"),
        )


def longest_step_of(scheduler: Scheduler) -> LongestStep | None:
    """``longest_step`` of the scheduler's metrics; None of one that has no such series."""
    return longest_step(scheduler.get("/metrics")[1]) if scheduler.kind.split()[0] == "tandem" else None


def longest_step(page: str) -> LongestStep | None:
    """From a page of metrics. None if the page does not say it."""
    seconds, cpu, at = [found.search(page) for found in (_MAX_STEP, _MAX_STEP_CPU, _MAX_STEP_AT)]
    if seconds is None:
        return None
    return LongestStep(float(seconds[1]), None if cpu is None else float(cpu[1]), None if at is None else float(at[1]))


def pause_since(longest: LongestStep | None, began_at: float) -> Pause | None:
    """``began_at``: when the clock began, as Unix time."""
    if longest is None:
        return None
    return Pause(longest.seconds, longest.cpu_seconds, longest.at is not None and longest.at < began_at)
