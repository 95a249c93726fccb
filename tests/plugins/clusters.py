"""Small clusters for the tests of plugins, and questions asked in every form that a plugin answers in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import (
    EMPTY_STATE,
    FilterPlugin,
    NodeSubset,
    NormalizePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    State,
)
from scheduler.messages.status import SKIP, Refusal
from scheduler.objects.kinds import kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod


def cluster(nodes: Iterable[Node], pods: Iterable[Pod] = (), objects: Iterable[ApiObject] = ()) -> View:
    """What a cycle sees of these nodes, assigned pods and other objects."""
    cache = ClusterCache()
    for each in nodes:
        cache.observe_node(each)
    for pod in pods:
        cache.observe_pod(PodInfo(pod))
    for other in objects:
        cache.objects.put(kind_of(other), other.key, other)
    return cache.view


def info(name: str = "pending", **fields: Any) -> PodInfo:
    """A pending pod; ``fields``: as of `pod`."""
    return PodInfo(testing.pod(name, **fields))


def pre_filter_state(plugin: FilterPlugin, pod: PodInfo, view: View) -> State | None:
    """What the plugin's filter gets; None where it skips the pod."""
    if not isinstance(plugin, PreFilterPlugin):
        return EMPTY_STATE
    answer = plugin.pre_filter(pod, view)
    if answer is SKIP:
        return None
    assert isinstance(answer, State), answer
    return answer.inner if isinstance(answer, NodeSubset) else answer


def refusals(plugin: FilterPlugin, pod: PodInfo, view: View) -> dict[str, Refusal]:
    """Node name → why not, of the nodes that are refused; asked in all four forms."""
    state = pre_filter_state(plugin, pod, view)
    if state is None:
        return {}
    table = view.table
    rows = view.ordered_rows[::-1].copy()
    whole = _refusals(plugin, state, pod, view, list(range(table.size)), view.rows)
    listed = _refusals(plugin, state, pod, view, rows.tolist(), rows)
    single = {
        row: refusal for row in rows.tolist() if (refusal := plugin.filter_row(state, pod, view, row)) is not None
    }
    few = plugin.filter_few(state, pod, view, rows.tolist())
    assert few == [single.get(row) for row in rows.tolist()]
    existing = set(rows.tolist())
    assert {row: refusal for row, refusal in whole.items() if row in existing} == listed == single
    return {table.names[row]: refusal for row, refusal in single.items()}


def _refusals(
    plugin: FilterPlugin, state: State, pod: PodInfo, view: View, listed: list[int], rows: Any
) -> dict[int, Refusal]:
    verdicts = plugin.filter(state, pod, view, rows)
    if verdicts is None:
        return {}
    assert verdicts.codes.dtype == np.int16
    assert len(verdicts.codes) == len(listed)
    codes = zip(listed, verdicts.codes.tolist(), strict=True)
    return {row: verdicts.refusals[code - 1] for row, code in codes if code}


def reasons(plugin: FilterPlugin, pod: PodInfo, view: View) -> dict[str, tuple[str, ...]]:
    return {name: refusal.reasons for name, refusal in refusals(plugin, pod, view).items()}


def raw_scores(plugin: ScorePlugin, pod: PodInfo, view: View) -> dict[str, int] | None:
    """Node name → score before normalising, None where the plugin skips the pod; asked in all four forms."""
    rows = view.ordered_rows
    state: Any = plugin.pre_score(pod, view, rows) if isinstance(plugin, PreScorePlugin) else EMPTY_STATE
    if state is SKIP:
        return None
    assert isinstance(state, State), state
    whole = plugin.score(state, pod, view, view.rows)
    listed = plugin.score(state, pod, view, rows)
    single = [plugin.score_row(state, pod, view, row) for row in rows.tolist()]
    assert single == plugin.score_few(state, pod, view, rows.tolist())
    assert whole.dtype == listed.dtype == np.int64
    assert len(whole) == view.table.size
    assert whole[rows].tolist() == listed.tolist() == single
    return {view.table.names[row]: score for row, score in zip(rows.tolist(), single, strict=True)}


def normalized_scores(plugin: NormalizePlugin, pod: PodInfo, view: View) -> dict[str, int] | None:
    """Node name → score from 0 to 100."""
    raw = raw_scores(plugin, pod, view)
    if raw is None:
        return None
    scores = plugin.normalize(EMPTY_STATE, np.array(list(raw.values()), np.int64), view, view.ordered_rows)
    return dict(zip(raw, scores.tolist(), strict=True))
