"""Rows with nominated pods are asked together as each of them is by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.cluster.node_columns import INT64_COLUMNS
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.node_filter import (
    FiltersBeside,
    filter_one_row,
    filter_private,
    filter_with_nominated,
    refusals_beside,
    rivals,
    with_pods,
)
from scheduler.framework.post_filter import PostFilterContext
from scheduler.messages.status import Refusal
from scheduler.objects.pod import Pod
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from scheduler.testing.objects import node, pod
from tests.preemption.situations import Situation
from tests.preemption.test_wavefront import HOST, ZONE, situations
from tests.preemption.test_wavefront_volumes import situations as situations_with_volumes


def nominated_rows(context: PostFilterContext) -> dict[int, tuple[PodInfo, ...]]:
    names = context.view.table.names
    found = {row: rivals(context.pod, context.nominated_pods(names[row])) for row in context.view.ordered_rows.tolist()}
    return {row: pods for row, pods in found.items() if pods}


def together(context: PostFilterContext) -> dict[int, Refusal | None]:
    filters = context.profile.filter_plugins
    beside = FiltersBeside.of(filters, context.states)
    return refusals_beside(beside, context.pod, context.view, nominated_rows(context))


def one_by_one(context: PostFilterContext) -> dict[int, Refusal | None]:
    found = {}
    for row, pods in nominated_rows(context).items():
        private = context.view.one_row(row)
        states = with_pods(context.states, private, 0, pods, 1)
        found[row] = filter_one_row(context.profile.filter_plugins, states, context.pod, private, 0)
    return found


@settings(max_examples=150)
@given(st.one_of(situations(), situations_with_volumes()))
def test_rows_asked_together_answer_as_each_by_itself(given_situation: tuple[Situation, Pod]) -> None:
    situation, preemptor = given_situation
    statuses = dict.fromkeys(situation.cache.table.names, situation.refusal)
    context = situation.attempt(preemptor, statuses=statuses)
    assert together(context) == one_by_one(context)


@settings(max_examples=100)
@given(st.one_of(situations(), situations_with_volumes()))
def test_nominated_pods_are_put_on_a_private_row_and_leave_no_trace(given_situation: tuple[Situation, Pod]) -> None:
    situation, preemptor = given_situation
    statuses = dict.fromkeys(situation.cache.table.names, situation.refusal)
    context = situation.attempt(preemptor, statuses=statuses)
    filters = context.profile.filter_plugins
    for row, pods in nominated_rows(context).items():
        private, untouched = context.view.one_row(row), context.view.one_row(row)
        expected = filter_with_nominated(filters, context.states, context.pod, context.view, row, pods)
        assert filter_private(filters, context.states, context.pod, private, pods) == expected
        for column in INT64_COLUMNS:
            assert getattr(private.table, column).tolist() == getattr(untouched.table, column).tolist()
        assert [list(there) for there in private.table.pods] == [list(there) for there in untouched.table.pods]
        assert private.table.ports == untouched.table.ports


WEB = {"app": "web"}
APART: dict[str, Any] = {"affinity": affinity_json(anti_required=[pod_term(WEB, HOST)])}
SPREAD: dict[str, Any] = {"spread": [spread_json(ZONE, WEB)]}


@pytest.mark.parametrize("fields", [APART, SPREAD], ids=["apart", "spread"])
def test_a_plugin_that_counts_pods_takes_one_table_for_all_rows(fields: dict[str, Any]) -> None:
    """By what is copied: a table of each row cost most of an attempt where a hundred pods were nominated."""
    nodes = [node(f"n{place}", cpu="8", zone=f"z{place}") for place in range(20)]
    waiting = [
        pod(f"w{place}", cpu="1", nominated=f"n{place}", priority=5, labels=WEB if place % 2 else {})
        for place in range(20)
    ]
    situation = Situation(nodes, waiting)
    context = situation.attempt(pod("new", cpu="1", priority=1, labels=WEB, **fields), statuses={})
    expected = one_by_one(context)
    taken = CountedTakes(context.view)
    assert together(replace(context, view=taken)) == expected
    assert sum(refusal is not None for refusal in expected.values()) == 10
    assert taken.sizes == [20]


class CountedTakes(View):
    """The same view, with the sizes of the tables that are taken from it."""

    __slots__ = ("sizes",)

    def __init__(self, view: View) -> None:
        super().__init__(view.table, view)
        self.sizes: list[int] = []

    def take(self, rows: Sequence[int]) -> View:
        self.sizes.append(len(rows))
        return super().take(rows)
