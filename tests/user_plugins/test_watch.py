"""User plugins that raise, are slow or block can be found: by plugin, extension point, pod, file and line."""

from __future__ import annotations

import asyncio
import gc
import time
import traceback
from collections.abc import Iterator
from typing import Any
from weakref import ref

import pytest
import structlog

from scheduler.controller.report.plugin_watch import PLUGIN_WATCH, PluginWatch, watched
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.per_node import PerNodeFilter
from scheduler.framework.plugin import PermitPlugin
from scheduler.framework.post_filter import PostFilterPlugin
from scheduler.messages.status import unschedulable
from scheduler.testing.objects import pod
from scheduler.user_plugins.checked import checked
from tests.engine.driver import Cluster


class Raising(PerNodeFilter):
    name = "Raising"

    def filter_one(self, state: Any, pod: Any, node: Any, node_view: Any) -> Any:
        raise RuntimeError("boom")


class Forbidding(PermitPlugin):
    name = "Forbidding"

    def permit(self, state: Any, pod: Any, view: Any, node: str) -> Any:
        raise KeyError("licence")


class Slow(PerNodeFilter):
    name = "Slow"

    def filter_one(self, state: Any, pod: Any, node: Any, node_view: Any) -> Any:
        end = time.monotonic() + 0.12
        while time.monotonic() < end:
            pass


def _broken_hint(_pod: Any, _old: Any, _new: Any) -> Hint:
    raise LookupError("no such rack")


class Hinting(PerNodeFilter):
    name = "Hinting"

    def filter_one(self, state: Any, pod: Any, node: Any, node_view: Any) -> Any:
        return unschedulable("not yet")

    def events(self) -> Any:
        return (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), _broken_hint),)


class Despairing(PostFilterPlugin):
    name = "Despairing"

    def post_filter(self, context: Any) -> Any:
        raise LookupError("no room")


@pytest.fixture
def log_lines() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


def tried(plugin: Any, name: str) -> None:
    cluster = Cluster(checked(plugin, name, "plugins[0]"))
    cluster.node("a")
    cluster.pod("p", cpu="64" if issubclass(plugin, PostFilterPlugin) else "1")
    cluster.schedule()


@pytest.mark.parametrize(("plugin", "point"), [(Raising, "Filter"), (Forbidding, "Permit"), (Despairing, "PostFilter")])
def test_an_exception_is_in_the_log_with_its_traceback_and_its_pod(
    plugin: Any, point: str, log_lines: list[Any]
) -> None:
    name = f"My{plugin.name}"
    tried(plugin, name)
    (line,) = [line for line in log_lines if line["event"] == "Plugin failed"]
    assert (line["plugin"], line["point"], line["pod"]) == (name, point, "default/p")
    trace = line["exc_info"].__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_filename == __file__
    assert PLUGIN_WATCH.errors[name, point] == 1


def test_a_hint_that_raises_is_in_the_log_with_its_traceback_and_the_pod_is_tried(log_lines: list[Any]) -> None:
    cluster = Cluster(checked(Hinting, "MyHinting", "plugins[0]"))
    cluster.node("a")
    cluster.pod("p")
    cluster.schedule()
    cluster.node("b")
    assert cluster.engine.queue.pending_counts()["unschedulable"] == 0
    (line,) = [line for line in log_lines if line["event"] == "Plugin failed"]
    assert (line["plugin"], line["point"], line["pod"]) == ("MyHinting", "QueueingHint", "default/p")
    assert traceback.extract_tb(line["exc_info"].__traceback__)[-1].name == "_broken_hint"
    assert PLUGIN_WATCH.errors["MyHinting", "QueueingHint"] == 1


def test_a_slow_call_in_the_cycle_is_named_and_counted(log_lines: list[Any]) -> None:
    tried(Slow, "MySlow")
    (line,) = [line for line in log_lines if line["event"] == "Plugin held up everything"]
    assert (line["plugin"], line["point"], line["pod"]) == ("MySlow", "Filter", "default/p")
    assert line["seconds"] >= 0.12
    assert PLUGIN_WATCH.slow_calls["MySlow", "Filter"] == 1


async def test_a_coroutine_that_blocks_is_named_and_one_that_awaits_is_not(log_lines: list[Any]) -> None:
    async def waiting() -> str:
        await asyncio.sleep(0.15)
        return "done"

    async def blocking() -> str:
        await asyncio.sleep(0)
        end = time.monotonic() + 0.15
        while time.monotonic() < end:
            pass
        return "done"

    assert await watched(waiting(), "P", "PreBind", "default/a") == "done"
    assert log_lines == []
    assert await watched(blocking(), "P", "PreBind", "default/b") == "done"
    (line,) = log_lines
    assert (line["plugin"], line["point"], line["pod"]) == ("P", "PreBind", "default/b")


async def test_cancelling_a_watched_coroutine_cancels_it() -> None:
    ended: list[str] = []

    async def waiting() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("finally")

    task = asyncio.create_task(watched(waiting(), "P", "PreBind", "default/a"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["finally"]


def test_the_same_line_is_reported_once_a_minute_and_counted_each_time(log_lines: list[Any]) -> None:
    now = [0.0]
    watch = PluginWatch(lambda: now[0])

    def fail() -> None:
        try:
            raise ValueError("x")
        except ValueError as error:
            watch.raised(error, "P", "Filter", "default/a")

    for _ in range(1000):
        fail()
    assert len(log_lines) == 1
    now[0] = 61.0
    fail()
    assert len(log_lines) == 2
    assert watch.errors["P", "Filter"] == 1001


def test_an_exception_keeps_no_fork_of_the_cluster_alive() -> None:
    """A fork that lives is handed every change of the cluster."""
    cluster = Cluster(checked(Raising, "MyRaising", "plugins[0]"))
    cluster.node("a")
    fork = cluster.engine.cache.fork()
    cluster.engine.preview(pod("p"), cluster.now, cluster=fork)
    alive = ref(fork)
    del fork
    gc.collect()
    assert alive() is None


def test_an_exception_that_is_raised_again_and_again_counts_each_time() -> None:
    watch, error = PluginWatch(), ValueError("x")

    def fail() -> None:
        began = watch.begin()
        try:
            raise error
        except ValueError:
            watch.raised(error, "P", "Filter", "default/a")
        finally:
            watch.end(began, "P", "Filter", "default/a")

    fail()
    fail()
    assert watch.errors["P", "Filter"] == 2
