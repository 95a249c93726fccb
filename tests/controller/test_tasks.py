"""What becomes of a task that an exception ends."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from scheduler.controller.report.instruments import Counter
from scheduler.controller.tasks import MAX_VITAL_FAILURES, Tasks
from scheduler.controller.watch.backoff import Backoff
from tests.controller.conftest import until


class Life:
    """A scheduler's end, and its tasks."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.counter = Counter("failures", "", ("task",))
        self.tasks = Tasks(self.ends.append, self.counter, lambda: Backoff(0.001, 0.002, random.Random(1)))

    def failures(self, name: str) -> float:
        return self.counter.child(name).value


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_a_task_that_fails_is_named_and_counted_and_starts_again(log_lines: list[dict[str, Any]]) -> None:
    life = Life()
    starts: list[int] = []

    async def fails_twice() -> None:
        starts.append(1)
        if len(starts) < 3:
            raise ValueError("no such thing")
        await for_ever()

    life.tasks.start("upkeep", fails_twice, is_vital=False)
    assert life.failures("upkeep") == 0.0 and life.tasks.trouble() == ""
    await until(lambda: len(starts) == 3)
    assert life.failures("upkeep") == 2.0
    assert life.tasks.trouble().endswith("ValueError: no such thing")
    named = [line["name"] for line in log_lines if line["event"] == "Task failed, it is started again"]
    assert named == ["upkeep", "upkeep"]
    assert life.ends == []
    await life.tasks.close()


async def test_a_vital_task_that_fails_once_goes_on_and_again_and_again_ends_the_scheduler() -> None:
    life = Life()
    starts: list[int] = []

    async def fails() -> None:
        starts.append(1)
        raise OSError("disk full")

    life.tasks.start("scheduling loop", fails)
    await until(lambda: bool(life.ends))
    assert life.ends == [f"scheduling loop failed {MAX_VITAL_FAILURES} times: OSError: disk full"]
    assert len(starts) == MAX_VITAL_FAILURES
    await life.tasks.close()


async def test_a_vital_task_that_ends_without_a_reason_ends_the_scheduler_and_another_one_may() -> None:
    life = Life()

    async def ends() -> None:
        return

    life.tasks.start("rights", ends, is_vital=False)
    life.tasks.start("reflector pods", ends)
    await until(lambda: bool(life.ends))
    assert life.ends == ["reflector pods ended"]
    await life.tasks.close()


async def test_a_cancellation_that_leaks_out_is_a_failure_and_one_from_outside_is_the_end() -> None:
    life = Life()
    starts: list[int] = []

    async def leaks_once() -> None:
        starts.append(1)
        if len(starts) == 1:
            raise asyncio.CancelledError
        await for_ever()

    life.tasks.start("upkeep", leaks_once, is_vital=False)
    await until(lambda: len(starts) == 2)
    assert life.failures("upkeep") == 1.0
    await life.tasks.close()
    assert len(starts) == 2
