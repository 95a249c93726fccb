"""Reloading the configuration of a running scheduler: applied as a whole between two cycles, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scheduler.controller.between_cycles import BetweenCycles
from scheduler.controller.loop import read_clock
from scheduler.controller.reload import Build, ConfigurationReloader, InForce, NewConfiguration
from scheduler.controller.report.instruments import Counter
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.now import Now
from tests.controller.conftest import until
from tests.limits import WAIT_SECONDS

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
LEASE = "leaderElection: {resourceName: tandem-scheduler}\n"


class Target:
    """Takes texts that begin with ``good``; keeps what is in force."""

    def __init__(self) -> None:
        self.in_force = ""
        self.refused: list[str] = []
        self.events: list[tuple[str, str, str]] = []
        self.is_busy = False
        self.asked = 0
        """How often a swap was tried."""
        self.counter = Counter("reloads", "", ("result",))
        self.between_cycles = BetweenCycles()
        self.taken: list[str] = []
        """What was in force at each call of ``taken``."""

    def prepare(self, text: bytes) -> Build:
        new = self._checked(text)
        return lambda: new

    def _checked(self, text: bytes) -> NewConfiguration:
        if text.startswith(b"poison"):
            raise RecursionError("maximum recursion depth exceeded")
        if text.startswith(b"many"):
            raise ConfigurationError([Fault(f"a[{number}]", "x" * 5_000) for number in range(9_000)])
        if not text.startswith(b"good"):
            raise ConfigurationError([Fault("profiles", "Required value")])

        def swap(_: Now) -> bool:
            self.asked += 1
            if not self.is_busy:
                self.in_force = text.decode()
            return not self.is_busy

        return NewConfiguration(swap, {}, {})

    def announced(self, kind: str, reason: str, note: str) -> None:
        self.events.append((kind, reason, note))
        if reason == "ConfigurationRejected":
            self.refused.append(note.removeprefix("the last good configuration stays: "))

    def counts(self) -> dict[str, float]:
        return {result: self.counter.child(result).value for result in ("applied", "rejected", "unchanged")}


@asynccontextmanager
async def reloading(target: Target) -> AsyncIterator[ConfigurationReloader]:
    reloader = ConfigurationReloader(
        target.prepare,
        target.counter,
        read_clock,
        target.between_cycles,
        started=InForce(b"good 0"),
        announce=target.announced,
        taken=lambda _: target.taken.append(target.in_force),
    )
    running = asyncio.create_task(reloader.run())
    try:
        yield reloader
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_wrong_configuration_is_reported_and_the_last_good_one_stays(log_lines: list[dict[str, Any]]) -> None:
    target = Target()
    async with reloading(target) as reloader:
        reloader.offer(b"good 1", "file")
        await until(lambda: target.in_force == "good 1")
        reloader.offer(b"bad", "file")
        await until(lambda: target.refused == ["profiles: Required value"])
        assert target.in_force == "good 1"
        assert not reloader.is_well
        reloader.offer(b"good 1", "file")
        await until(lambda: reloader.is_well)
        assert target.counts() == {"applied": 1.0, "rejected": 1.0, "unchanged": 1.0}
        assert reloader.last is not None and reloader.last.result == "applied"
    assert "New configuration is wrong, the last good one stays" in [line["event"] for line in log_lines]


async def test_a_text_that_is_put_back_to_that_of_the_start_leaves_no_reload_to_be_shown() -> None:
    target = Target()
    async with reloading(target) as reloader:
        reloader.offer(b"bad", "file")
        await until(lambda: reloader.last is not None)
        reloader.offer(b"good 0", "file")
        await until(lambda: reloader.is_well)
        assert reloader.last is None


async def test_the_faults_of_a_reload_have_lines_and_columns_as_those_of_check_config() -> None:
    target = Target()
    async with reloading(target) as reloader:
        reloader.offer(b"parallelism: 4\nprofiles: []\n# bad", "config.yaml")
        await until(lambda: not reloader.is_well)
        assert reloader.last is not None
        assert reloader.last.faults == ("profiles: Required value (config.yaml:2:1)",)


async def test_a_text_is_read_while_the_event_loop_goes_on() -> None:
    """A MiB of YAML takes most of a second."""
    target = Target()
    began, goes_on = threading.Event(), threading.Event()

    def slow(text: bytes) -> Build:
        began.set()
        assert goes_on.wait(WAIT_SECONDS), "the loop stands still meanwhile"
        return target.prepare(text)

    reloader = ConfigurationReloader(
        slow, target.counter, read_clock, target.between_cycles, started=InForce(b"good 0")
    )
    task = asyncio.create_task(reloader.run())
    reloader.offer(b"good 1", "file")
    await until(began.is_set)
    goes_on.set()
    await until(lambda: target.in_force == "good 1")
    task.cancel()


async def test_of_a_text_with_thousands_of_faults_the_first_are_shown(log_lines: list[dict[str, Any]]) -> None:
    """A ConfigMap of a MiB can have nine thousand documents of the same kind, each a fault."""
    target = Target()
    async with reloading(target) as reloader:
        reloader.offer(b"many", "file")
        await until(lambda: not reloader.is_well)
        assert reloader.last is not None
        assert len(reloader.last.faults) == 51
        assert reloader.last.faults[-1] == "and 8950 more"
        assert len(target.refused[0]) < 60_000
    [line] = [one for one in log_lines if one["event"].startswith("New configuration is wrong")]
    assert len(str(line)) < 60_000


async def test_while_a_cycle_is_under_way_a_newer_configuration_overtakes_the_one_that_waits() -> None:
    target = Target()
    target.is_busy = True
    async with reloading(target) as reloader:
        reloader.offer(b"good 1", "file")
        await asyncio.sleep(0)
        reloader.offer(b"good 2", "file")
        await asyncio.sleep(0)
        target.is_busy = False
        await until(lambda: target.in_force != "")
        assert target.in_force == "good 2"
        assert target.counts()["applied"] == 1.0


async def test_a_configuration_that_waits_is_in_use_by_all_before_the_next_pod_is_taken() -> None:
    target = Target()
    target.is_busy = True
    async with reloading(target) as reloader:
        reloader.offer(b"good 1", "file")
        await until(lambda: target.asked > 0)
        target.between_cycles.try_all()
        assert target.taken == [], "a group's members are tried on"
        # No other task ever sees it free: the next cycle begins in the same slice.
        target.is_busy = False
        target.between_cycles.try_all()
        target.is_busy = True
        assert target.taken == ["good 1"]
        await until(lambda: reloader.last is not None)
        assert target.counts()["applied"] == 1.0


async def test_a_config_map_that_can_not_be_used_replaces_a_text_that_is_still_being_read() -> None:
    target = Target()
    goes_on = threading.Event()

    def slow(text: bytes) -> Build:
        assert goes_on.wait(WAIT_SECONDS)
        return target.prepare(text)

    reloader = ConfigurationReloader(
        slow, target.counter, read_clock, target.between_cycles, started=InForce(b"good 0"), announce=target.announced
    )
    task = asyncio.create_task(reloader.run())
    reloader.offer_data({"a": "good 1"}, "", "ConfigMap x/y")
    await asyncio.sleep(0)
    reloader.offer_data({"a": "good 2", "b": "good 2"}, "", "ConfigMap x/y")
    goes_on.set()
    await until(lambda: target.refused == ["the ConfigMap has 2 keys where one is wanted"])
    assert (target.in_force, reloader.is_well) == ("", False)
    task.cancel()


async def test_a_mounted_file_is_followed_through_its_links(tmp_path: Path) -> None:
    """As kubelets mount a ConfigMap: the file is a link into a folder that is swapped by another link."""

    def publish(number: int) -> None:
        folder = tmp_path / f"version-{number}"
        folder.mkdir()
        (folder / "config.yaml").write_text(f"good {number}")
        fresh = tmp_path / "fresh"
        fresh.symlink_to(folder)
        fresh.rename(tmp_path / "data")

    publish(0)
    mounted = tmp_path / "config.yaml"
    mounted.symlink_to(tmp_path / "data" / "config.yaml")
    target = Target()
    async with reloading(target) as reloader:
        watching = asyncio.create_task(reloader.watch(str(mounted), 0.005))
        await asyncio.sleep(0)
        publish(1)
        await until(lambda: target.in_force == "good 1")
        mounted.unlink()
        publish(2)
        mounted.symlink_to(tmp_path / "data" / "config.yaml")
        await until(lambda: target.in_force == "good 2")
        watching.cancel()


async def test_a_config_map_is_read_by_its_key_and_nothing_follows_from_its_deletion() -> None:
    target = Target()
    async with reloading(target) as reloader:
        reloader.offer_data({"a": "bad", "b": "good b"}, "b", "ConfigMap x/y")
        await until(lambda: target.in_force == "good b")
        reloader.offer_data({"only": "good only"}, "", "ConfigMap x/y")
        await until(lambda: target.in_force == "good only")
        reloader.offer_data(None, "", "ConfigMap x/y")
        reloader.offer_data({"a": "good", "b": "good"}, "", "ConfigMap x/y")
        await until(lambda: target.refused == ["the ConfigMap has 2 keys where one is wanted"])
        assert target.in_force == "good only"


async def test_a_text_on_which_the_loader_breaks_is_refused_and_the_next_one_is_taken() -> None:
    target = Target()
    async with reloading(target) as reloader:
        reloader.offer(b"poison", "a file")
        await until(lambda: target.refused == ["RecursionError: maximum recursion depth exceeded"])
        assert not reloader.is_well
        assert target.counts()["rejected"] == 1
        reloader.offer(b"good", "a file")
        await until(lambda: target.in_force == "good")
        assert reloader.is_well


async def test_a_config_map_with_half_a_surrogate_pair_is_refused_like_any_other() -> None:
    target = Target()
    async with reloading(target) as reloader:
        reloader.offer_data({"only": "\ud800"}, "", "ConfigMap x/y")
        await until(lambda: target.counts()["rejected"] == 1)
