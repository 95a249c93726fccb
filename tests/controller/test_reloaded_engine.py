"""What a reload of the configuration changes in the shipped engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from scheduler import testing
from scheduler.cli.flags import read_flags
from scheduler.cli.prepare import prepare
from scheduler.cli.run import parts_of
from scheduler.compose import build_engine
from scheduler.config.changes import changes_between
from scheduler.controller.between_cycles import BetweenCycles
from scheduler.controller.loop import read_clock
from scheduler.controller.reload import ConfigurationReloader, InForce, NewConfiguration
from scheduler.controller.report.instruments import Counter
from scheduler.engine.engine import Engine
from scheduler.errors import ConfigurationError
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.testing.objects import node
from tests.controller.conftest import until

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
LEASE = "leaderElection: {resourceName: tandem-scheduler}\n"


class Running:
    """The shipped engine as ``tandem run`` makes it, with its configuration reloader."""

    def __init__(self, tmp_path: Path, text: str, *more: str) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(HEAD + LEASE + text)
        flags = read_flags([f"--config={file}", "--secure-port=0", *more])
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
    reloader = ConfigurationReloader(
        running.prepare, counter, read_clock, BetweenCycles(), started=InForce(document=started), announce=announce
    )
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

    reloader = ConfigurationReloader(
        running.prepare, Counter("r", "", ("result",)), read_clock, BetweenCycles(), announce=announce
    )
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


async def test_a_reload_keeps_a_plugin_of_ones_own_that_sorts_the_queue_and_refuses_other_args_for_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "by_label.py").write_text(
        "import msgspec\n"
        "from scheduler.plugin import QueueSortPlugin\n"
        "class Args(msgspec.Struct):\n"
        "    label: str = 'rank'\n"
        "class ByLabel(QueueSortPlugin):\n"
        "    Args = Args\n"
        "    def sort_key(self, pod, timestamp):\n"
        "        return (pod.labels.get(self.args.label, ''), timestamp)\n"
    )

    def sorted_by(label: str, backoff: int) -> str:
        sort = "plugins: {queueSort: {enabled: [{name: ByLabel}], disabled: [{name: PrioritySort}]}}"
        args = f"pluginConfig: [{{name: ByLabel, args: {{label: {label}}}}}]"
        own = "apiVersion: tandem.scheduling/v1alpha1\nkind: TandemConfiguration\n"
        own += "plugins: [{name: ByLabel, path: 'by_label:ByLabel'}]"
        profiles = f"profiles: [{{schedulerName: one, {sort}, {args}}}]"
        return f"podInitialBackoffSeconds: {backoff}\n{profiles}\n---\n{own}"

    running = Running(tmp_path, sorted_by("rank", 1), f"--plugin-folder={folder}")
    running.reload(sorted_by("rank", 7))
    assert running.engine.settings.queue.initial_backoff == 7.0
    with pytest.raises(ConfigurationError) as caught:
        running.reload(sorted_by("grade", 7))
    assert str(caught.value) == "profiles: queueSort ByLabel can't take over while running: start again"
