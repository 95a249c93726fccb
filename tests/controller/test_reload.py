"""Reloading the configuration of a running scheduler: applied as a whole between two cycles, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler import testing
from scheduler.cli.flags import read_flags
from scheduler.cli.prepare import prepare
from scheduler.cli.run import parts_of
from scheduler.compose import build_engine
from scheduler.config.changes import changes_between
from scheduler.controller.loop import read_clock
from scheduler.controller.reload import Build, ConfigurationReloader, NewConfiguration
from scheduler.controller.report.instruments import Counter
from scheduler.engine.engine import Engine
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.testing.objects import node
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
        target.prepare, target.counter, read_clock, current=b"good 0", announce=target.announced
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

    reloader = ConfigurationReloader(slow, target.counter, read_clock, current=b"good 0")
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


async def test_while_a_configuration_waits_for_the_cycle_under_way_it_says_so() -> None:
    """No other pod is taken then: with extenders one cycle would follow the other, and it would wait for all of them."""
    target = Target()
    target.is_busy = True
    async with reloading(target) as reloader:
        reloader.offer(b"good 1", "file")
        await until(lambda: reloader.is_waiting)
        target.is_busy = False
        await until(lambda: target.in_force != "")
        assert not reloader.is_waiting


async def test_a_configuration_that_waits_is_applied_before_the_next_pod_is_taken_and_pods_wait_for_its_parts() -> None:
    target, said = Target(), list[tuple[bool, str]]()

    def between_two_cycles() -> None:
        # No other task ever sees it free: the next cycle begins in the same slice.
        target.is_busy = False
        said.append((reloader.may_pop(), target.in_force))
        target.is_busy = True

    target.is_busy = True
    async with reloading(target) as reloader:
        assert reloader.may_pop()
        reloader.offer(b"good 1", "file")
        await until(lambda: target.asked > 0)
        assert (reloader.may_pop(), target.in_force) == (True, ""), "a group's members are tried on"
        between_two_cycles()
        between_two_cycles()
        assert said == [(False, "good 1")] * 2
        await until(lambda: reloader.last is not None)
        assert reloader.may_pop()
        assert target.counts()["applied"] == 1.0


async def test_a_config_map_that_can_not_be_used_replaces_a_text_that_is_still_being_read() -> None:
    target = Target()
    goes_on = threading.Event()

    def slow(text: bytes) -> Build:
        assert goes_on.wait(WAIT_SECONDS)
        return target.prepare(text)

    reloader = ConfigurationReloader(slow, target.counter, read_clock, current=b"good 0", announce=target.announced)
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


# --- the shipped engine -----------------------------------------------------------------------------------------------


class Running:
    """The shipped engine as ``tandem run`` makes it, with its configuration reloader."""

    def __init__(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(HEAD + LEASE + text)
        flags = read_flags([f"--config={file}", "--secure-port=0"])
        prepared = prepare(flags)
        self.engine: Engine = build_engine(
            prepared.configuration, started=read_clock(), seed=1, profiles=prepared.profiles
        )
        checker = parts_of(self.engine, prepared, flags).prepare
        assert checker is not None
        self.prepare = checker
        self.engine.handle(Synced(), read_clock())

    def reload(self, text: str, head: str = HEAD + LEASE) -> NewConfiguration:
        new = self.prepare((head + text).encode())()
        assert new.swap(read_clock())
        self.engine.check()
        return new

    def observe(self, pod: Pod) -> None:
        self.engine.handle(ObjectObserved(Kind.POD, pod), read_clock())

    def waiting(self) -> dict[str, str]:
        return {story.pod: story.place.value for story in self.engine.queue.describe()}


def pending(name: str, scheduler_name: str, **more: Any) -> Pod:
    return testing.pod(name, scheduler=scheduler_name, **more)


async def test_pods_of_a_new_profile_are_queued_and_those_of_a_dropped_one_leave(tmp_path: Path) -> None:
    running = Running(tmp_path, "profiles: [{schedulerName: one}]")
    running.observe(pending("a", "one"))
    running.observe(pending("b", "two"))
    assert list(running.waiting()) == ["default/a"]
    running.reload("profiles: [{schedulerName: two}]")
    assert list(running.waiting()) == ["default/b"]
    running.observe(pending("c", "one"))
    running.observe(pending("d", "two"))
    assert list(running.waiting()) == ["default/b", "default/d"]


async def test_pods_that_fitted_nowhere_are_tried_again_by_the_new_plugins(tmp_path: Path) -> None:
    running = Running(tmp_path, "profiles: [{schedulerName: one}]")
    running.engine.handle(ObjectObserved(Kind.NODE, node("n", cpu="1")), read_clock())
    running.observe(pending("big", "one", cpu="2"))
    running.engine.schedule_one(read_clock())
    assert running.waiting() == {"default/big": "unschedulable"}
    disabled = "plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}"
    running.reload(f"profiles: [{{schedulerName: one, {disabled}}}]")
    assert running.waiting() == {"default/big": "active"}
    running.engine.schedule_one(read_clock())
    attempt = running.engine.attempt_of("default/big")
    assert attempt is not None
    assert attempt.node == "n"


async def test_what_only_a_start_can_change_is_named_and_what_can_not_wait_is_refused(tmp_path: Path) -> None:
    running = Running(tmp_path, "profiles: [{schedulerName: one}]")
    new = running.reload(
        "leaderElection: {resourceName: another}\npodInitialBackoffSeconds: 7\nprofiles: [{schedulerName: one}]", HEAD
    )
    assert new.warnings == ("leaderElection takes effect at the next start",)
    assert running.engine.settings.queue.initial_backoff == 7.0
    before = running.engine.profiles
    with pytest.raises(ConfigurationError) as caught:
        running.reload("profiles: [{schedulerName: one}]\nextenders: [{urlPrefix: 'http://e', filterVerb: f}]")
    assert str(caught.value) == "extenders: can't change while running: start again"
    groups = (
        "apiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\ngroups: {coscheduling: {enabled: true}}"
    )
    with pytest.raises(ConfigurationError) as caught:
        running.reload(f"profiles: [{{schedulerName: one}}]\n---\n{groups}")
    assert str(caught.value) == "groups: can't change while running: start again"
    with pytest.raises(ConfigurationError):
        running.reload("profiles: [{schedulerName: one, plugins: {filter: {enabled: [{name: Missing}]}}}]")
    assert running.engine.profiles is before


async def test_a_reload_says_field_by_field_what_it_changed(tmp_path: Path, log_lines: list[dict[str, Any]]) -> None:
    running = Running(tmp_path, "profiles: [{schedulerName: one}]")
    started = running.prepare((HEAD + LEASE + "profiles: [{schedulerName: one}]").encode())().document
    events: list[tuple[str, str, str]] = []

    def announce(kind: str, reason: str, note: str) -> None:
        events.append((kind, reason, note))

    counter = Counter("reloads", "", ("result",))
    reloader = ConfigurationReloader(running.prepare, counter, read_clock, document=started, announce=announce)
    task = asyncio.create_task(reloader.run())
    weights = "plugins: {score: {enabled: [{name: ImageLocality, weight: 5}]}}"
    reloader.offer(
        (HEAD + LEASE + f"podInitialBackoffSeconds: 7\nprofiles: [{{schedulerName: one, {weights}}}]").encode(), "f"
    )
    await until(lambda: bool(events))
    task.cancel()
    assert reloader.last is not None
    assert reloader.last.changes == (
        "podInitialBackoffSeconds: 1 → 7",
        'profiles[one].plugins.score: added {"enabled":[{"name":"ImageLocality","weight":5}]}',
    )
    assert events == [("Normal", "ConfigurationReloaded", "; ".join(reloader.last.changes))]
    (line,) = [line for line in log_lines if line["event"] == "Configuration reloaded"]
    assert line["changes"] == reloader.last.changes


async def test_a_profile_that_vanishes_while_pods_wait_under_its_name_is_a_warning_that_counts_them(
    tmp_path: Path, log_lines: list[dict[str, Any]]
) -> None:
    running = Running(tmp_path, "profiles: [{schedulerName: one}, {schedulerName: two}]")
    running.observe(pending("a", "two"))
    running.observe(pending("b", "two"))
    events: list[tuple[str, str, str]] = []

    def announce(kind: str, reason: str, note: str) -> None:
        events.append((kind, reason, note))

    reloader = ConfigurationReloader(running.prepare, Counter("r", "", ("result",)), read_clock, announce=announce)
    task = asyncio.create_task(reloader.run())
    reloader.offer((HEAD + LEASE + "profiles: [{schedulerName: one}]").encode(), "f")
    await until(lambda: len(events) > 1)
    task.cancel()
    text = 'profile "two" is gone: 2 pods with that schedulerName wait, and no profile schedules them'
    assert events[1] == ("Warning", "ProfileRemoved", text)
    assert [line["event"] for line in log_lines if line["log_level"] == "warning"] == [text]


def scoped(pool: str) -> str:
    return f"""profiles: [{{schedulerName: one}}]
---
apiVersion: tandem.scheduling/v1alpha1
kind: TandemConfiguration
nodeScope: {{one: {{matchLabels: {{pool: {pool}}}}}}}
"""


async def test_a_profile_s_nodes_change_with_a_reload_which_says_so(tmp_path: Path) -> None:
    running = Running(tmp_path, scoped("a"))
    running.engine.handle(ObjectObserved(Kind.NODE, node("n", labels={"pool": "b"})), read_clock())
    running.observe(pending("p", "one"))
    running.engine.schedule_one(read_clock())
    assert running.waiting() == {"default/p": "unschedulable"}
    before = running.prepare((HEAD + LEASE + scoped("a")).encode())().document
    after = running.reload(scoped("b")).document
    assert [str(change) for change in changes_between(before, after)] == [
        "tandem.nodeScope.one.matchLabels.pool: a → b"
    ]
    running.engine.schedule_one(read_clock())
    attempt = running.engine.attempt_of("default/p")
    assert attempt is not None
    assert attempt.node == "n"
