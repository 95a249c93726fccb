"""READ THIS FIRST: how one pod gets its node.

1.  No nodes at all: there is nothing to ask.
2.  PreFilter: each plugin looks at the pod once; it may refuse it as a whole, or name the only nodes worth a look.
3.  The nominated node first: where room was made for the pod, and it fits there now, nothing else is looked at.
4.  Filter: which nodes fit. Answers come from the pod's class and are brought up to date, not made anew. On nodes
    that other pods are nominated to, the pod must fit beside them too.
5.  Sampling, where it is configured: enough nodes are enough.
6.  Filter extenders narrow the nodes down, one after the other.
7.  Nothing fits: PostFilter may make room (preemption); the attempt fails with the sentence that users know.
8.  One node fits: taken. Several: PreScore, Score, Normalize, the extenders' scores; the best total wins, a tie is
    broken by chance.
9.  Assume: from here on the pod counts on its node, before the API server knows.
10. Reserve sets aside what the pod needs besides; Permit may make it wait.

The cycle is a generator only for the extenders' sake: where none is configured it never yields. From the first extender
call on it looks at a frozen view, since the live state goes on while the answer is awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.effects import Effect
from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.row_journal import RowJournal
from scheduler.cluster.view import View
from scheduler.engine.attempt import Attempt
from scheduler.engine.error_texts import cause_of, failed_at, text_of
from scheduler.engine.extender_round import Answers, Calls, ExtenderRound
from scheduler.engine.outcome import NO_NODES, CycleOutcome, NotPlaced, Placed
from scheduler.engine.post_filter_round import run_post_filters
from scheduler.engine.reservation import assume_and_reserve
from scheduler.engine.sampling import nodes_to_find, take_sample
from scheduler.errors import PluginError
from scheduler.extenders.documents import Documents
from scheduler.extenders.extender import Extender
from scheduler.framework.classes.cache import ClassCache, PodClass
from scheduler.framework.classes.filters import ClassFilters
from scheduler.framework.classes.first_refusals import FITS, OUTSIDE
from scheduler.framework.classes.nominated_overlay import NominatedOverlay
from scheduler.framework.classes.run import ClassRun
from scheduler.framework.classes.scores import ClassScores
from scheduler.framework.diagnosis import NOT_LOOKED_AT, Diagnosis, fit_error_text, outside_node_set
from scheduler.framework.node_filter import filter_with_nominated, rivals
from scheduler.framework.pre_score import run_pre_score_only
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.status import Code, Refusal

Cycle = Generator[Calls, Answers, CycleOutcome]


@dataclass(slots=True)
class CycleContext:
    """What a cycle works with; owned by the engine."""

    cache: ClusterCache
    nominator: Nominator
    classes: ClassCache
    extenders: Sequence[Extender]
    rng: Random
    stopwatch: Callable[[], float]
    apply_effects: Callable[[Iterable[Effect]], None]
    new_ticket: Callable[[], int]
    report: Callable[[str], None]
    """Takes what somebody should log."""
    documents: Documents
    percentage_of_nodes_to_score: int | None = None
    next_start: int = 0
    """Where sampling goes on, as a place in the order of nodes; shared by all profiles."""


class Depth(Enum):
    """How far a cycle goes and how much it keeps."""

    DECIDE = "decide"
    """The real thing: the pod is assumed on its node."""
    PREVIEW = "preview"
    """The same decision, but nothing is assumed."""
    EXPLAIN = "explain"
    """A preview that looks at every node and scores all that fit, also where the decision needs neither."""


class Feasible(msgspec.Struct, eq=False):
    """The rows that are left, and how they came to be so few."""

    rows: npt.NDArray[np.int64]
    is_whole_class: bool
    """They are exactly the rows on which the class fits: its kept totals hold."""
    refusals: dict[int, Refusal] = msgspec.field(default_factory=dict)
    """Signed refusals of this pod alone, by row: nominated pods, extenders. They come before the class's."""
    rejectors: frozenset[str] = frozenset()


def scheduling_cycle(
    context: CycleContext,
    profile: Profile,
    pod: PodInfo,
    attempt: Attempt,
    now: Now,
    depth: Depth = Depth.DECIDE,
) -> Cycle:
    """One attempt at one pod. Fills in ``attempt`` on the way; a plugin that raises ends it as an error."""
    try:
        return (yield from _cycle(context, profile, pod, attempt, now, depth))
    except PluginError as error:
        return NotPlaced(text_of(error), is_error=True)
    except Exception as error:  # noqa: BLE001 - our own fault: this pod waits for its back-off, all others go on
        context.report(f"{pod.key}: the attempt broke off: {error!r}")
        return NotPlaced(cause_of(error), is_error=True)


def _cycle(context: CycleContext, profile: Profile, pod: PodInfo, attempt: Attempt, now: Now, depth: Depth) -> Cycle:
    view, journal = context.cache.view, context.cache.journal
    attempt.total_nodes = total_nodes = view.total_nodes
    if total_nodes == 0:
        return NotPlaced(NO_NODES)

    clock = _Laps(context.stopwatch, attempt)
    extenders = ExtenderRound(context.extenders, pod, attempt, context.new_ticket, context.documents)
    pod_class, fragments = context.classes.find(profile, pod, view)
    if extenders.is_needed:
        # Answers are awaited while the live state goes on: this cycle keeps to one picture, and to answers of its own.
        view, journal, pod_class = view.frozen(), RowJournal(), PodClass(profile, pod_class.unconcerned)
    attempt.was_class_known = pod_class.is_known
    filters = pod_class.filters
    run = ClassRun(pod, fragments, view, journal, attempt.plugin_times)
    filters.refresh_pre_filters(run)
    attempt.evaluated = filters.evaluated
    clock.lap("PreFilter")
    if filters.pre_refusal is not None:
        if filters.pre_refusal.code not in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE):
            return NotPlaced(
                failed_at("PreFilter", filters.pre_refusal.plugin, filters.pre_refusal.message), is_error=True
            )
        diagnosis = _refused_as_a_whole(filters, view)
        return (yield from _no_fit(context, profile, pod, view, diagnosis, filters, extenders, attempt, now, clock))

    attempt.only_nodes = filters.only
    feasible = None
    if depth is not Depth.EXPLAIN and pod.pod.status.nominated_node_name:
        feasible = yield from _nominated_node(context, profile, pod, view, filters, extenders, attempt)
    if feasible is None:
        filters.refresh_rows(run)
        feasible = _fitting(context, profile, run, pod_class, attempt)
        error = filters.error() or _error_among(feasible.refusals.values())
        if error is not None:
            return NotPlaced(failed_at("Filter", error.plugin, error.message), is_error=True)
        clock.lap("Filter")
        if extenders.filters and len(feasible.rows):
            problem = yield from extenders.filter(view, feasible)
            if problem is not None:
                return NotPlaced(problem, is_error=True)
    attempt.feasible_nodes = len(feasible.rows)

    if not len(feasible.rows):
        tried_first = _refused_where_nominated(context, profile, pod, view, filters)
        diagnosis = _diagnose(filters, feasible, tried_first)
        return (yield from _no_fit(context, profile, pod, view, diagnosis, filters, extenders, attempt, now, clock))
    if depth is Depth.EXPLAIN:
        attempt.diagnosis = _diagnose(filters, feasible)
    if len(feasible.rows) == 1 and depth is not Depth.EXPLAIN:
        row = int(feasible.rows[0])
    else:
        _score(profile, run, pod_class, feasible, attempt)
        if feasible.is_whole_class and not extenders.scorers and depth is not Depth.EXPLAIN:
            row = _best_of_class(context, view, pod_class.scores, attempt)
        else:
            row = yield from _best_of_some(context, run, pod_class.scores, feasible.rows, extenders, attempt)
        clock.lap("Score")
    node = view.table.names[row]
    if depth is not Depth.DECIDE:
        attempt.node = node
        return Placed(pod.on_node(node), filters.states)
    if context.cache.table.existing_row(node) is None:
        return NotPlaced(f'node "{node}" was removed while extenders were asked', is_error=True)
    unconcerned = pod_class.unconcerned
    return assume_and_reserve(context, profile, pod, node, filters.states, unconcerned, attempt, clock.lap)


def run_without_extenders(cycle: Cycle) -> CycleOutcome:
    """Drive a cycle that has nobody to wait for."""
    try:
        next(cycle)
    except StopIteration as done:
        outcome: CycleOutcome = done.value
        return outcome
    raise AssertionError("a cycle without extenders yielded")


# --- 3. the nominated node --------------------------------------------------------------------------------------------


def _nominated_node(
    context: CycleContext,
    profile: Profile,
    pod: PodInfo,
    view: View,
    filters: ClassFilters,
    extenders: ExtenderRound,
    attempt: Attempt,
) -> Generator[Calls, Answers, Feasible | None]:
    """The one row, if the pod fits where it is nominated; else None and the search goes over all nodes, which finds
    out what went wrong here, too. As in kube-scheduler the node sets of PreFilter plugins are not consulted for it.
    """
    name = pod.pod.status.nominated_node_name
    row = view.table.existing_row(name)
    if row is None:
        return None
    beside = rivals(pod, context.nominator.pods_for_node(name))
    try:
        refusal = filter_with_nominated(profile.filter_plugins, filters.states, pod, view, row, beside)
    except PluginError:
        return None
    if refusal is not None:
        return None
    feasible = Feasible(np.array([row], dtype=np.int64), is_whole_class=False)
    if extenders.filters:
        problem = yield from extenders.filter(view, feasible)
        if problem is not None or not len(feasible.rows):
            return None
    attempt.evaluated_nodes = 1
    return feasible


def _refused_where_nominated(
    context: CycleContext, profile: Profile, pod: PodInfo, view: View, filters: ClassFilters
) -> tuple[int, Refusal] | None:
    """What the diagnosis of a narrowed search has from the nominated node: its row, and why the pod does not fit there.

    kube-scheduler 1.36 keeps the refusal of the first look even of a node that the search then leaves out, and names
    the plugin behind it among those that the nodes left out do not satisfy.
    """
    name = pod.pod.status.nominated_node_name
    row = view.table.existing_row(name) if name and filters.subset_plugins else None
    if row is None:
        return None
    beside = rivals(pod, context.nominator.pods_for_node(name))
    try:
        refusal = filter_with_nominated(profile.filter_plugins, filters.states, pod, view, row, beside)
    except PluginError:
        return None
    return None if refusal is None or refusal.code is Code.ERROR else (row, refusal)


# --- 4. and 5. the rows that fit --------------------------------------------------------------------------------------


def _fitting(
    context: CycleContext,
    profile: Profile,
    run: ClassRun,
    pod_class: PodClass,
    attempt: Attempt,
) -> Feasible:
    view = run.view
    filters = pod_class.filters
    feasible = Feasible(filters.feasible_rows, is_whole_class=True)
    if len(context.nominator.nodes):
        feasible.refusals = _refused_beside_nominated(context, profile, run, pod_class)
        refused = np.fromiter(feasible.refusals, np.int64, len(feasible.refusals))
        lost = refused[filters.codes[refused] == FITS]
        if len(lost):
            feasible.rows = np.setdiff1d(feasible.rows, lost, assume_unique=True)
            feasible.is_whole_class = False
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = context.percentage_of_nodes_to_score
    if percentage is None and context.extenders and any(extender.has_filter for extender in context.extenders):
        percentage = 0
    if percentage is None:
        attempt.evaluated_nodes = attempt.total_nodes
        return feasible
    candidates = view.ordered_rows
    if filters.only is not None:
        candidates = candidates[filters.codes[candidates] != OUTSIDE]
    wanted = nodes_to_find(len(candidates), percentage)
    if not profile.score_plugins and not any(each.has_filter or each.has_prioritize for each in context.extenders):
        wanted = min(wanted, 1)
    sample, seen = take_sample(candidates, feasible.rows, context.next_start, wanted)
    context.next_start = (context.next_start + seen) % view.total_nodes
    attempt.evaluated_nodes = seen
    if len(sample) < len(feasible.rows):
        feasible.rows = sample
        feasible.is_whole_class = False
    return feasible


def _refused_beside_nominated(
    context: CycleContext, profile: Profile, run: ClassRun, pod_class: PodClass
) -> dict[int, Refusal]:
    priority = run.pod.priority
    overlay = pod_class.overlays.get(priority)
    if overlay is None:
        overlay = pod_class.overlays[priority] = NominatedOverlay(profile.filter_plugins)
    return overlay.refusals(run, pod_class.filters, context.nominator)


def _error_among(refusals: Collection[Refusal]) -> Refusal | None:
    for refusal in _distinct(refusals).values():
        if refusal.code is Code.ERROR:
            return refusal
    return None


def _distinct(refusals: Collection[Refusal]) -> dict[int, Refusal]:
    """Identity → refusal: of the nodes that refuse a pod most share one and the same, which need not be compared."""
    return dict(zip(map(id, refusals), refusals, strict=True))


# --- 7. nothing fits --------------------------------------------------------------------------------------------------


def _refused_as_a_whole(filters: ClassFilters, view: View) -> Diagnosis:
    refusal = filters.pre_refusal
    assert refusal is not None
    return Diagnosis(
        codes=np.zeros(view.table.size, np.int32),
        absent=refusal,
        pre_filter=refusal,
        unschedulable_plugins=frozenset(filters.pre_rejectors),
    )


def _diagnose(filters: ClassFilters, feasible: Feasible, tried_first: tuple[int, Refusal] | None = None) -> Diagnosis:
    """Why no row is left: the refusals of the class, under those of the pod. ``tried_first``: of the nominated node."""
    codes = np.maximum(filters.codes, FITS).astype(np.int32)
    refusals = list(filters.refusals[1:])
    own = feasible.refusals if tried_first is None else dict([tried_first]) | feasible.refusals
    if own:
        codes[np.fromiter(own, np.int64, len(own))] = _numbered(own.values(), refusals)
    used = np.bincount(codes, minlength=len(refusals) + 1)
    rejectors = {refusal.plugin for refusal, count in zip(refusals, used[1:].tolist(), strict=True) if count}
    pending = {
        refusal.plugin
        for refusal, count in zip(refusals, used[1:].tolist(), strict=True)
        if count and refusal.code is Code.PENDING
    }
    narrowed = frozenset(filters.subset_plugins)
    unsatisfied = narrowed | {tried_first[1].plugin} if tried_first is not None else narrowed
    return Diagnosis(
        codes=codes,
        refusals=tuple(refusals),
        absent=outside_node_set(unsatisfied) if narrowed else NOT_LOOKED_AT,
        unschedulable_plugins=frozenset(rejectors) | narrowed | feasible.rejectors,
        pending_plugins=frozenset(pending),
    )


def _numbered(found: Collection[Refusal], refusals: list[Refusal]) -> list[int]:
    """Code of each, counted on from ``refusals``, which equal ones share a place of."""
    known: dict[int, int] = {}
    numbers: dict[Refusal, int] = {}
    for identity, refusal in _distinct(found).items():
        number = numbers.get(refusal)
        if number is None:
            refusals.append(refusal)
            number = numbers[refusal] = len(refusals)
        known[identity] = number
    return [known[identity] for identity in map(id, found)]


def _no_fit(
    context: CycleContext,
    profile: Profile,
    pod: PodInfo,
    view: View,
    diagnosis: Diagnosis,
    filters: ClassFilters,
    extenders: ExtenderRound,
    attempt: Attempt,
    now: Now,
    clock: _Laps,
) -> Generator[Calls, Answers, NotPlaced]:
    total = attempt.total_nodes
    if attempt.evaluated_nodes == 0:
        attempt.evaluated_nodes = total
    if extenders.preempters and not extenders.is_needed:
        view = view.frozen()
    times = attempt.plugin_times
    answer = yield from run_post_filters(context, profile, pod, view, diagnosis, filters.states, extenders, now, times)
    clock.lap("PostFilter")
    if answer is not None:
        diagnosis = diagnosis.with_post_filter(answer.message)
        attempt.preemption = answer.evidence
        attempt.victims = answer.victims
    attempt.diagnosis = diagnosis
    return NotPlaced(
        fit_error_text(total, diagnosis),
        unschedulable_plugins=diagnosis.unschedulable_plugins,
        pending_plugins=diagnosis.pending_plugins,
        nomination=answer.nomination if answer is not None else NotPlaced("").nomination,
    )


# --- 8. the choice ----------------------------------------------------------------------------------------------------


def _score(
    profile: Profile,
    run: ClassRun,
    pod_class: PodClass,
    feasible: Feasible,
    attempt: Attempt,
) -> None:
    """Bring the class's scores up to date."""
    scores = pod_class.scores
    only_pre_scored = None
    if profile.pre_score_only_plugins and profile.score_plugins:
        only_pre_scored = run_pre_score_only(profile.pre_score_only_plugins, run, feasible.rows)
    scores.refresh(run, pod_class.filters.first)
    attempt.evaluated_scores = scores.evaluated | only_pre_scored if only_pre_scored else scores.evaluated


def _best_of_class(context: CycleContext, view: View, scores: ClassScores, attempt: Attempt) -> int:
    """The row, where all rows that fit the class are left and nobody else scores them."""
    best, leaders = scores.leaders()
    row = leaders[0] if len(leaders) == 1 else leaders[int(context.rng.random() * len(leaders))]
    attempt.shares = scores.shares_of(row)
    attempt.total = {view.table.names[row]: best}
    return row


def _best_of_some(
    context: CycleContext,
    run: ClassRun,
    scores: ClassScores,
    rows: npt.NDArray[np.int64],
    extenders: ExtenderRound,
    attempt: Attempt,
) -> Generator[Calls, Answers, int]:
    """The row, among these; what each of them scores is kept."""
    view = run.view
    totals, shares = scores.rank(run, rows)
    names = [view.table.names[row] for row in rows.tolist()]
    attempt.scores = {plugin: dict(zip(names, share.tolist(), strict=True)) for plugin, share in shares.items()}
    if extenders.scorers:
        totals = totals + (yield from extenders.score(view, rows))
    attempt.total = dict(zip(names, totals.tolist(), strict=True))
    return int(rows[_one_of(np.flatnonzero(totals == totals.max()), context.rng)])


def _one_of(rows: npt.NDArray[np.int64], rng: Random) -> int:
    """One at random, as kube-scheduler documents it; the only draw is from the injected source."""
    return int(rows[0] if len(rows) == 1 else rows[rng.randrange(len(rows))])


class _Laps:
    """Times the points; the durations go into the Attempt and nowhere else."""

    __slots__ = ("_durations", "_last", "_stopwatch")

    def __init__(self, stopwatch: Callable[[], float], attempt: Attempt) -> None:
        self._stopwatch = stopwatch
        self._durations = attempt.durations
        self._last = stopwatch()

    def lap(self, point: str) -> None:
        now = self._stopwatch()
        self._durations[point] = now - self._last
        self._last = now
