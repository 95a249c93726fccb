"""The choice of a scheduling cycle: the feasible row with the best total."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from scheduler.engine.cycle_context import Depth, Run
from scheduler.engine.extender_round import Answers, Calls
from scheduler.engine.feasible import Feasible
from scheduler.engine.searching import looked
from scheduler.errors import PluginError
from scheduler.framework.class_run import PRE_SCORE, PluginPoint
from scheduler.framework.pre_score import run_pre_score_only

_NOTHING: frozenset[PluginPoint] = frozenset()


def best(run: Run, feasible: Feasible) -> Generator[Calls, Answers, int]:
    """The row with the best total. Brings the class's scores up to date. Raises PluginError."""
    if run.is_large:
        yield from looked(run, PRE_SCORE)
    attempt, only_pre_scored = run.attempt, _NOTHING
    try:
        is_compared = run.profile.score_plugins or run.context.extenders
        if (plugins := run.profile.pre_score_only_plugins) and is_compared:
            only_pre_scored = run_pre_score_only(plugins, run.of_class, feasible.rows)
        is_choice_enough = not run.extenders.scorers and run.depth in (Depth.DECIDE, Depth.PREVIEW)
        if is_choice_enough and feasible.is_sample:
            row = _best_of_sample(run, feasible.rows)
            evaluated = run.pod_class.sampled_scores.evaluated
            attempt.evaluated_scores = evaluated | only_pre_scored if only_pre_scored else evaluated
        else:
            scores = run.pod_class.scores
            holds = run.refresh_scores()
            attempt.evaluated_scores = scores.evaluated | only_pre_scored if only_pre_scored else scores.evaluated
            of_class = holds and feasible.is_whole_class and is_choice_enough
            row = _best_of_class(run) if of_class else (yield from _best_of_some(run, feasible.rows, is_choice_enough))
            if not holds:
                attempt.evaluated_scores = scores.evaluated | only_pre_scored
    except PluginError as error:
        run.scoring_failed(error.point)
        raise
    run.clock.lap("Score")
    return row


def _best_of_sample(run: Run, rows: npt.NDArray[np.int64]) -> int:
    """The row of a sample with the best total."""
    scores, attempt = run.pod_class.sampled_scores, run.attempt
    totals = scores.totals(run.of_class, run.filters.first, rows)
    best_total = int(totals.max())
    places = (totals == best_total).nonzero()[0]
    leaders: list[int] = rows[places].tolist()
    row = leaders[0] if len(leaders) == 1 else run.context.pick(leaders)
    attempt.shares = scores.shares_of(row, places.item(leaders.index(row)))
    attempt.total = {run.view.table.names[row]: best_total}
    return row


def _best_of_class(run: Run) -> int:
    """The row with the best total, where all rows that fit the class are left and no extender scores them."""
    scores, attempt = run.pod_class.scores, run.attempt
    best, leaders = scores.leaders()
    row = leaders[0] if len(leaders) == 1 else run.context.pick(leaders)
    attempt.shares = scores.shares_of(row)
    attempt.total = {run.view.table.names[row]: best}
    return row


def _best_of_some(run: Run, rows: npt.NDArray[np.int64], is_choice_enough: bool) -> Generator[Calls, Answers, int]:
    """The row of these with the best total. What each of them scores is recorded, unless that of the choice is
    enough."""
    totals, shares = run.pod_class.scores.rank(run.of_class, rows)
    attempt, names = run.attempt, run.view.table.names
    if not is_choice_enough:
        listed = [names[row] for row in rows.tolist()]
        for name, each in shares.items():
            attempt.scores[name] = dict(zip(listed, np.broadcast_to(each, rows.shape).tolist(), strict=True))
        if run.extenders.scorers:
            totals = totals + (yield from run.extenders.score(run.view, rows))
        attempt.total = dict(zip(listed, totals.tolist(), strict=True))
    best = rows[totals == totals.max()].tolist()
    row = int(best[0] if len(best) == 1 else run.context.pick(best))
    if is_choice_enough:
        place = int(np.flatnonzero(rows == row)[0])
        attempt.shares = {name: each if isinstance(each, int) else each.item(place) for name, each in shares.items()}
        attempt.total = {names[row]: int(totals[place])}
    return row
