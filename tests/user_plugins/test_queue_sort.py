"""A QueueSort plugin that raises, or whose keys have no order among each other: its pods and all others are tried."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.controller.report.plugin_watch import PLUGIN_WATCH
from scheduler.framework.plugin import QueueSortPlugin, Reads
from scheduler.messages.commands import BindPod
from scheduler.user_plugins.checked import checked
from tests.engine.driver import Cluster

NONSENSE = (None, "soon", [1], b"1", float("nan"), object())


class ByTier(QueueSortPlugin):
    """Sorts by a label that is a number."""

    name = "ByTier"
    reads = Reads.NOTHING
    error: ClassVar[type[BaseException]] = ValueError

    def sort_key(self, pod: PodInfo, timestamp: float) -> tuple[Any, ...]:
        tier = pod.labels["tier"]
        if tier == "leaves":
            raise self.error
        return (NONSENSE[int(tier[-1])],) if tier.startswith("none") else (int(tier), timestamp)


def sorted_by(plugin: type[QueueSortPlugin]) -> Cluster:
    queue_sort = {"enabled": [{"name": "ByTier"}], "disabled": [{"name": "*"}]}
    return Cluster(checked(plugin, "ByTier", ""), profile={"plugins": {"queueSort": queue_sort}})


def order_of(cluster: Cluster) -> list[str]:
    """The pods in the order in which they are tried."""
    cluster.schedule_all()
    return [bind.pod.name for bind in cluster.writes(BindPod)]


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
def test_pods_without_a_key_come_after_all_others_in_the_order_in_which_they_came(error: type[BaseException]) -> None:
    ByTier.error = error
    cluster = sorted_by(ByTier)
    cluster.node("n")
    before = PLUGIN_WATCH.errors["ByTier", "QueueSort"]
    for name, tier in {"x": "leaves", "c": "3", "y": "leaves", "a": "1", "b": "2"}.items():
        cluster.pod(name, labels={"tier": tier})
        cluster.time += 1
    assert order_of(cluster) == ["a", "b", "c", "x", "y"]
    assert PLUGIN_WATCH.errors["ByTier", "QueueSort"] == before + 2


@pytest.mark.parametrize("nonsense", range(len(NONSENSE)))
def test_keys_that_can_not_be_compared_keep_no_pod_from_being_tried(nonsense: int) -> None:
    cluster = sorted_by(ByTier)
    cluster.node("n")
    for name, tier in {"x": f"none{nonsense}", "c": "3", "y": f"none{nonsense}", "a": "1", "b": "2"}.items():
        cluster.pod(name, labels={"tier": tier})
        cluster.time += 1
    tried = order_of(cluster)
    assert set(tried) == {"a", "b", "c", "x", "y"}
    assert [name for name in tried if name in "abc"] == ["a", "b", "c"]


def test_an_event_wakes_the_other_pods_where_one_has_lost_its_key() -> None:
    cluster = sorted_by(ByTier)
    cluster.node("small", cpu="1")
    for name in ("a", "b", "c"):
        cluster.pod(name, cpu="2", labels={"tier": "1"})
    cluster.schedule_all()
    cluster.pod("b", cpu="2", labels={})
    cluster.node("large", cpu="8")
    cluster.advance(30)
    assert set(order_of(cluster)) == {"a", "b", "c"}


def test_the_end_of_a_back_off_frees_the_other_pods_where_one_has_lost_its_key() -> None:
    cluster = sorted_by(ByTier)
    for name in ("a", "b", "c"):
        cluster.pod(name, cpu="2", labels={"tier": "1"})
    cluster.node("large", cpu="8")
    for _ in range(3):
        cluster.schedule()
    for name, bind in zip("abc", cluster.writes(BindPod), strict=True):
        assert bind.pod.name == name
        cluster.fail(bind)
    assert [cluster.place(name) for name in "abc"] == ["error backoff"] * 3
    cluster.pod("b", cpu="2", labels={})
    cluster.advance(30)
    assert set(order_of(cluster)) == {"a", "b", "c"}
