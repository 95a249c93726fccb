"""Calls a plugin in all forms: for all rows, for rows in any order, and row by row; the answers must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.per_node import PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import (
    EMPTY_STATE,
    FilterPlugin,
    NodeSubset,
    NormalizePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    State,
)
from scheduler.messages.status import Refusal, Skip
from scheduler.testing.violations import ContractViolation, asked
from scheduler.user_plugins import answers

_COLUMNS: Final = (
    "allocatable_cpu",
    "allocatable_memory",
    "allocatable_storage",
    "allocatable_pods",
    "requested_cpu",
    "requested_memory",
    "requested_storage",
    "non_zero_cpu",
    "non_zero_memory",
    "pod_count",
    "exists",
    "unschedulable",
    "taint_set",
    "feature_set",
)


def columns_of(table: NodeTable) -> dict[str, npt.NDArray[Any]]:
    """The columns that every table has, not copied."""
    return {name: getattr(table, name) for name in _COLUMNS}


def pre_filter_answer(plugin: Any, pod: PodInfo, view: View) -> State | Skip | Refusal:
    """The answer of ``pre_filter``; EMPTY_STATE for a plugin without it."""
    if not isinstance(plugin, PreFilterPlugin):
        return EMPTY_STATE
    found: State | Skip | Refusal = asked(
        plugin, f"pre_filter of pod {pod.name}", lambda: plugin.pre_filter(pod, view), answers.check_state
    )
    return found


def filter_state(plugin: Any, pod: PodInfo, view: View) -> State | None:
    """The state for ``filter``; None if it would not be called."""
    answer = pre_filter_answer(plugin, pod, view)
    if isinstance(answer, NodeSubset):
        return answer.inner
    return answer if isinstance(answer, State) else None


def filter_answers(plugin: FilterPlugin, pod: PodInfo, view: View) -> dict[str, Refusal]:
    """Node name → refusal, for the refused nodes. Raises ContractViolation if the forms differ."""
    state = filter_state(plugin, pod, view)
    if state is None:
        return {}
    rows = view.ordered_rows.copy()
    backwards = rows[::-1].copy()
    orders = (("all rows", view.rows), ("an array of rows", rows), ("rows in another order", backwards))
    if isinstance(plugin, PerNodeFilter):
        # First, so that a wrong answer is named by the method that its author wrote.
        for row in rows.tolist():
            refusal_of_row(plugin, state, pod, view, row)
    by_order = [(form, _refusals(plugin, state, pod, view, order)) for form, order in orders]
    by_row = {row: refusal_of_row(plugin, state, pod, view, row) for row in rows.tolist()}
    by_order.append(("a few rows", _few_refusals(plugin, state, pod, view, rows.tolist())))
    for form, found in by_order:
        for row in rows.tolist():
            if found.get(row) != by_row[row]:
                name = view.table.names[row]
                message = (
                    f"of pod {pod.name} and node {name} filter says {found.get(row)} asked for {form}, "
                    f"filter_row says {by_row[row]}"
                )
                raise ContractViolation(plugin.name, "forms", message)
    return {view.table.names[row]: refusal for row, refusal in by_row.items() if refusal is not None}


def _few_refusals(
    plugin: FilterPlugin, state: State, pod: PodInfo, view: View, rows: Sequence[int]
) -> dict[int, Refusal]:
    few: list[Refusal | None] = asked(
        plugin,
        f"filter_few of pod {pod.name}",
        lambda: plugin.filter_few(state, pod, view, rows),
        lambda answer: answers.check_few_refusals(answer, len(rows)),
    )
    return {row: refusal for row, refusal in zip(rows, few, strict=True) if refusal is not None}


def refusal_of_row(plugin: FilterPlugin, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
    method = "filter_one" if isinstance(plugin, PerNodeFilter) else "filter_row"
    what = f"{method} of pod {pod.name} and node {view.table.names[row]}"
    found: Refusal | None = asked(
        plugin, what, lambda: plugin.filter_row(state, pod, view, row), answers.check_optional_refusal
    )
    return found


def score_state(plugin: ScorePlugin, pod: PodInfo, view: View, rows: Rows) -> State | None:
    """The state for ``score``; None if it would not be called. A refusal by ``pre_score`` is a violation."""
    if not isinstance(plugin, PreScorePlugin):
        return EMPTY_STATE
    what = f"pre_score of pod {pod.name}"
    answer = asked(plugin, what, lambda: plugin.pre_score(pod, view, rows), answers.check_state)
    if isinstance(answer, Refusal):
        raise ContractViolation(plugin.name, "answers", f"{what} refused it: {answer.message}; that ends the attempt")
    return None if isinstance(answer, Skip) else answer


def score_answers(plugin: ScorePlugin, pod: PodInfo, view: View) -> dict[str, int] | None:
    """Node name → final score; None if the plugin skips the pod. Raises ContractViolation if the forms differ."""
    rows = view.ordered_rows.copy()
    if not len(rows):
        return None
    state = score_state(plugin, pod, view, rows)
    if state is None:
        return None
    listed = _scores(plugin, state, pod, view, rows)
    backwards = _scores(plugin, state, pod, view, rows[::-1].copy())[::-1]
    _compare(plugin, pod, view, rows, listed, backwards, "rows in another order")
    if Reads.FEASIBLE not in plugin.reads:
        whole = _scores(plugin, state, pod, view, view.rows)[rows]
        _compare(plugin, pod, view, rows, listed, whole, "all rows")
        single = [_score_of_row(plugin, state, pod, view, row) for row in rows.tolist()]
        _compare(plugin, pod, view, rows, listed, np.array(single, np.int64), "single rows")
        few = _few_scores(plugin, state, pod, view, rows.tolist())
        _compare(plugin, pod, view, rows, listed, np.array(few, np.int64), "a few rows")
    finals = listed
    if isinstance(plugin, NormalizePlugin):
        finals = _normalized(plugin, state, pod, view, rows, listed)
    if int(finals.min()) < 0 or int(finals.max()) > 100:
        message = f"the final scores of pod {pod.name} go from {finals.min()} to {finals.max()}; 0 to 100 is allowed"
        raise ContractViolation(plugin.name, "range", message)
    return {view.table.names[row]: score for row, score in zip(rows.tolist(), finals.tolist(), strict=True)}


def _refusals(plugin: FilterPlugin, state: State, pod: PodInfo, view: View, rows: Rows) -> dict[int, Refusal]:
    listed = list(range(view.table.size)) if isinstance(rows, slice) else rows.tolist()
    verdicts = asked(
        plugin,
        f"filter of pod {pod.name}",
        lambda: plugin.filter(state, pod, view, rows),
        lambda answer: answers.check_verdicts(answer, rows, view.table.size),
    )
    if verdicts is None:
        return {}
    codes = zip(listed, verdicts.codes.tolist(), strict=True)
    return {row: verdicts.refusals[code - 1] for row, code in codes if code}


def _scores(plugin: ScorePlugin, state: State, pod: PodInfo, view: View, rows: Rows) -> npt.NDArray[np.int64]:
    count = answers.row_count(rows, view.table.size)
    scores = asked(
        plugin,
        f"score of pod {pod.name}",
        lambda: plugin.score(state, pod, view, rows),
        lambda answer: answers.check_scores(answer, count),
    )
    if any(np.may_share_memory(scores, column) for column in columns_of(view.table).values()):
        raise ContractViolation(plugin.name, "inputs", "score answered a column of the table itself; answer a copy")
    return scores


def _score_of_row(plugin: ScorePlugin, state: State, pod: PodInfo, view: View, row: int) -> int:
    method = "score_one" if isinstance(plugin, PerNodeScore) else "score_row"
    what = f"{method} of pod {pod.name} and node {view.table.names[row]}"
    return int(asked(plugin, what, lambda: plugin.score_row(state, pod, view, row), answers.check_score))


def _few_scores(plugin: ScorePlugin, state: State, pod: PodInfo, view: View, rows: Sequence[int]) -> list[int]:
    few: list[int] = asked(
        plugin,
        f"score_few of pod {pod.name}",
        lambda: plugin.score_few(state, pod, view, rows),
        lambda answer: answers.check_few_scores(answer, len(rows)),
    )
    return few


def _compare(
    plugin: ScorePlugin,
    pod: PodInfo,
    view: View,
    rows: npt.NDArray[np.int64],
    one: npt.NDArray[np.int64],
    other: npt.NDArray[np.int64],
    form: str,
) -> None:
    for row, first, second in zip(rows.tolist(), one.tolist(), other.tolist(), strict=True):
        if first != second:
            message = (
                f"the score of pod {pod.name} on node {view.table.names[row]} is {first} asked for an array of rows "
                f"and {second} asked for {form}"
            )
            raise ContractViolation(plugin.name, "forms", message)


def _normalized(
    plugin: NormalizePlugin,
    state: State,
    pod: PodInfo,
    view: View,
    rows: npt.NDArray[np.int64],
    raw: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """The final scores; checks that equal raw scores become equal ones, in any order, alone or among others."""

    def normalize(scores: npt.NDArray[np.int64], of: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        before = scores.copy()
        finals = asked(
            plugin,
            f"normalize of pod {pod.name}",
            lambda: plugin.normalize(state, scores, view, of),
            lambda answer: answers.check_scores(answer, len(of)),
        )
        if not np.array_equal(before, scores):
            raise ContractViolation(plugin.name, "inputs", "normalize changed the scores that it was given")
        return finals.copy()

    finals = normalize(raw.copy(), rows)
    seen: dict[int, int] = {}
    for score, final in zip(raw.tolist(), finals.tolist(), strict=True):
        if seen.setdefault(score, final) != final:
            message = f"the raw score {score} came out as {seen[score]} and as {final}; equal ones must come out equal"
            raise ContractViolation(plugin.name, "normalize", message)
    backwards = normalize(raw[::-1].copy(), rows[::-1].copy())[::-1]
    if not np.array_equal(finals, backwards):
        raise ContractViolation(plugin.name, "normalize", "the final scores depend on the order of the rows")
    flat = np.full(len(rows), raw[0], np.int64)
    if set(normalize(flat, rows).tolist()) != set(normalize(flat[:1].copy(), rows[:1]).tolist()):
        message = f"the raw score {raw[0]} comes out differently alone and among others like it"
        raise ContractViolation(plugin.name, "normalize", message)
    return finals
