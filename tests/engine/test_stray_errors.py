"""Errors of plugins that are no Exception: they end the attempt in hand, and neither the process nor the task that runs
the engine."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import State
from tests.engine.counting import Counting
from tests.engine.driver import Cluster


class Counts(State):
    """Raises an error in one of its methods."""

    __slots__ = ()
    method: ClassVar[str] = ""
    error: ClassVar[type[BaseException]] = SystemExit

    def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> State:
        return self._said("with_pod")

    def for_row(self, view: View, row: int) -> State:
        return self._said("for_row")

    def ignores(self, other: PodInfo) -> bool:
        return self._said("ignores") is None

    def _said(self, method: str) -> State:
        if method == Counts.method:
            raise Counts.error("leaves")
        return self


class Leaves(Counting):
    name = "Leaves"
    counts = Counts


def preempting(method: str, error: type[BaseException]) -> Cluster:
    """A pod that has to preempt, tried with the plugin above."""
    Counts.method, Counts.error = method, error
    cluster = Cluster(Leaves)
    cluster.node("full", cpu="1")
    cluster.pod("low", cpu="1", node="full")
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule_all()
    return cluster


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("method", ["with_pod", "for_row"])
def test_what_a_state_raises_while_victims_are_sought_is_an_error_of_its_pod_alone(
    method: str, error: type[BaseException]
) -> None:
    cluster = preempting(method, error)
    assert cluster.place("high") == "error backoff"
    assert error.__name__ in cluster.said("high")[0]
    cluster.node("free", cpu="1")
    cluster.pod("next", cpu="1")
    cluster.schedule_all()
    assert cluster.node_of("next") == "free"


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
def test_where_a_state_can_not_say_which_pods_it_ignores_each_node_is_tried_by_itself(
    error: type[BaseException],
) -> None:
    assert preempting("ignores", error).nominated("high") == "full"
