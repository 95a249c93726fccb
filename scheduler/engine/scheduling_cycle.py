"""READ THIS FIRST: how one pod gets its node.

1.  No nodes at all: there is nothing to ask. A pod that names its node, as a DaemonSet's does, is asked about there
    before anything else, and takes it if it fits: in ``named_node.py``.
2.  PreFilter: each plugin looks at the pod once; it may refuse it as a whole, or name the only nodes worth a look.
3.  The nominated node first: where room was made for the pod, and it fits there now, nothing else is looked at.
4.  Filter: which nodes fit. Answers come from the pod's class and are brought up to date. On nodes that other pods are
    nominated to, the pod must fit beside them too.
5.  Sampling, where it is configured: enough nodes are enough.
6.  Filter extenders narrow the nodes down, one after the other.
7.  Nothing fits: PostFilter may make room (preemption); the attempt fails with the sentence that users know.
8.  One node fits: taken. Several: PreScore, Score, Normalize, the extenders' scores; the best total wins, a tie is
    broken by chance. In ``choosing.py``.
9.  Assume: from here on the pod counts on its node, before the API server knows.
10. Reserve sets aside what the pod needs besides; Permit may make it wait. Both in ``reservation.py``.

The cycle is a generator: it yields calls of extenders, and pauses (yields no calls) where a plugin searches long, and
between steps where the pod is large. From the first extender call on it looks at a frozen view, since the live state
goes on while the answer is awaited; while it pauses on the live state, nothing changes there.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from msgspec.structs import replace

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.choosing import best
from scheduler.engine.cycle_context import CycleContext, Depth, Laps, Run
from scheduler.engine.diagnosing import diagnose, explained, refused_as_a_whole
from scheduler.engine.driving import PAUSE
from scheduler.engine.error_texts import cause_of, text_of
from scheduler.engine.extender_round import Answers, Calls, ExtenderRound
from scheduler.engine.feasible import Feasible
from scheduler.engine.named_node import find_named_node, may_name_a_node
from scheduler.engine.outcome import NO_NODES, CycleOutcome, NotPlaced, Placed
from scheduler.engine.post_filter_round import NOT_ASKED, run_post_filters
from scheduler.engine.reservation import assume_and_reserve, refused_on_one_node
from scheduler.engine.sampling import nodes_to_find, not_reached, nothing_scores, percentage_in_force, take_sample
from scheduler.engine.searching import answers_in_steps, before_reserve, looked, parsed, searching_plugins, takes_long
from scheduler.errors import PluginError, failed_at, type_and_message
from scheduler.framework.class_run import PRE_FILTER, ClassRun
from scheduler.framework.classes.first_refusals import OUTSIDE
from scheduler.framework.diagnosis import Diagnosis, FitTexts
from scheduler.framework.node_filter import filter_with_nominated, rivals
from scheduler.framework.post_filter import PostFilterContext
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.status import Code, Refusal

Cycle = Generator[Calls, Answers, CycleOutcome]


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
        attempt.total_nodes = context.total_nodes
        if attempt.total_nodes == 0:  # 1
            return NotPlaced(NO_NODES)
        is_long = takes_long(pod, context.cache.volumes)
        if not is_long and may_name_a_node(context, pod, depth):
            named = find_named_node(context, profile, pod, attempt)
            if named is not None:
                return named.decide(depth)
        run = _begin(context, profile, pod, attempt, now, depth) if not is_long else None
        return (yield from _cycle(run or (yield from _begun_large(context, profile, pod, attempt, now, depth))))
    except PluginError as error:
        return NotPlaced(text_of(error), is_error=True)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - our own fault: this pod waits for its back-off, all others go on
        context.report(f"{pod.key}: the attempt broke off: {type_and_message(error)}")
        return NotPlaced(cause_of(error), is_error=True)


def _begin(context: CycleContext, profile: Profile, pod: PodInfo, attempt: Attempt, now: Now, depth: Depth) -> Run:
    view, journal = context.cache.view, context.cache.journal
    clock = Laps(context.stopwatch, attempt)
    extenders = ExtenderRound(context.extenders, pod, attempt, context.tickets, context.documents, context.asks_for)
    pod_class, fragments = context.classes.find(profile, pod, view)
    if extenders.is_needed:
        # The live state changes while extenders are awaited: this cycle uses a fork, and cached answers of its own.
        fork = context.cache.fork()
        view, journal, pod_class = fork.view, fork.journal, pod_class.copied(profile)
    attempt.was_class_known = pod_class.is_known
    of_class = ClassRun(pod, fragments, view, journal, attempt.plugin_times)
    filters = pod_class.filters
    return Run(context, profile, pod, attempt, now, depth, view, pod_class, filters, of_class, extenders, clock)


def _begun_large(
    context: CycleContext, profile: Profile, pod: PodInfo, attempt: Attempt, now: Now, depth: Depth
) -> Generator[Calls, Answers, Run]:
    yield from parsed(context, profile, pod)
    run = _begin(context, profile, pod, attempt, now, depth)
    run.is_large = True
    yield from looked(run, PRE_FILTER)
    return run


def _cycle(run: Run) -> Cycle:
    attempt, filters = run.attempt, run.filters
    filters.refresh_pre_filters(run.of_class)  # 2
    attempt.evaluated = filters.evaluated
    run.clock.lap("PreFilter")
    if filters.pre_refusal is not None:
        return (yield from _refused_as_a_whole(run, filters.pre_refusal))
    attempt.only_nodes = filters.only
    searching = searching_plugins(run)
    if run.is_large:
        yield PAUSE

    feasible = None
    if run.pod.pod.status.nominated_node_name and run.depth is not Depth.SCORE_ALL:
        feasible = yield from _nominated_node(run)  # 3
    if feasible is None:
        if searching:
            run.of_class.answers = yield from answers_in_steps(run, searching, filters.searched(run.view))
        feasible = _fitting(run)  # 4
        error = _sample(run, feasible)  # 5
        run.clock.lap("Filter")
        if error is not None:
            return run.filter_failed(error)
        if run.extenders.filters and feasible.count:
            feasible.refusals.update(run.refused_there)
            problem = yield from run.extenders.filter(run.view, feasible)  # 6
            if problem is not None:
                return NotPlaced(problem, is_error=True)
            attempt.evaluated_nodes -= feasible.not_evaluated(run.refused_first)
    attempt.feasible_nodes = count = feasible.count

    if not count:
        if run.is_large:
            yield PAUSE
        diagnosis = diagnose(run, feasible, _refused_where_nominated(run))
        return (yield from _no_fit(run, diagnosis))  # 7
    if run.depth in (Depth.EXPLAIN, Depth.SCORE_ALL):
        attempt.diagnosis = explained(run, feasible)
    is_only_one = count == 1 and run.depth is not Depth.SCORE_ALL
    row = int(feasible.rows[0]) if is_only_one else (yield from best(run, feasible))  # 8
    node = run.view.table.names[row]
    if run.depth is not Depth.DECIDE:
        attempt.node = node
        return Placed(run.pod.on_node(node), filters.states)
    if run.context.cache.table.existing_row(node) is None:
        return NotPlaced(f'node "{node}" was removed while extenders were asked', is_error=True)
    if run.is_large or searching:
        yield from before_reserve(run, node)
    return assume_and_reserve(run, node)  # 9, 10


def looked_at(
    context: CycleContext, profile: Profile, pod: PodInfo, attempt: Attempt, now: Now, begun: Run | None = None
) -> Run:
    """The beginning of a cycle: the PreFilter plugins have looked at the pod. Raises PluginError."""
    run = begun or _begin(context, profile, pod, attempt, now, Depth.DECIDE)
    run.filters.refresh_pre_filters(run.of_class)
    return run


def place_on(
    context: CycleContext, profile: Profile, pod: PodInfo, attempt: Attempt, now: Now, node: str, *, is_checked: bool
) -> Cycle:
    """The end of a cycle whose node has been chosen before: for a member of a group. Extenders are not asked.

    ``is_checked``: the node must still fit the pod.
    """
    try:
        asked = replace(context, extenders=()) if context.extenders else context
        begun: Run | None = None
        if takes_long(pod, context.cache.volumes):
            begun = yield from _begun_large(asked, profile, pod, attempt, now, Depth.DECIDE)
        run = looked_at(asked, profile, pod, attempt, now, begun)
        row = context.cache.table.existing_row(node)
        if row is None:
            return NotPlaced(f'node "{node}" was removed while its group was tried', is_error=True)
        if is_checked:
            if run.filters.pre_refusal is None and (plugins := searching_plugins(run)):
                yield from answers_in_steps(run, plugins, np.array([row], np.int64))
            refusal = run.filters.pre_refusal or _refusal_on(run, row)
            if refusal is not None:
                return refused_on_one_node(refusal, "Filter")
        yield from before_reserve(run, node)
        return assume_and_reserve(run, node)
    except PluginError as error:
        return NotPlaced(text_of(error), is_error=True)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - our own fault: this pod waits for its back-off, all others go on
        context.report(f"{pod.key}: the attempt broke off: {type_and_message(error)}")
        return NotPlaced(cause_of(error), is_error=True)


# --- 2. PreFilter -----------------------------------------------------------------------------------------------------


def _refused_as_a_whole(run: Run, refusal: Refusal) -> Generator[Calls, Answers, NotPlaced]:
    is_rejection = refusal.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)
    run.attempt.statuses["PreFilter"] = (refusal.code if is_rejection else Code.ERROR).value
    if not is_rejection:
        return NotPlaced(failed_at("PreFilter", refusal.plugin, refusal.message), is_error=True)
    return (yield from _no_fit(run, refused_as_a_whole(run, refusal)))


# --- 3. the nominated node --------------------------------------------------------------------------------------------


def _nominated_node(run: Run) -> Generator[Calls, Answers, Feasible | None]:
    """The one row, if the pod fits where it is nominated; else None and the search goes over all nodes, which finds
    out what went wrong here, too. As in kube-scheduler the node sets of PreFilter plugins are not consulted for it.
    """
    row = run.view.table.existing_row(run.pod.pod.status.nominated_node_name)
    if row is None or not _is_searched(run, row):
        return None
    if plugins := searching_plugins(run):
        yield from answers_in_steps(run, plugins, np.array([row], np.int64))
    try:
        refusal = _refusal_on(run, row)
    except PluginError:
        return None
    if refusal is not None:
        run.refused_first = row if refusal.code is not Code.ERROR else -1
        return None
    feasible = Feasible(np.array([row], dtype=np.int64), is_whole_class=False)
    if run.extenders.filters:
        problem = yield from run.extenders.filter(run.view, feasible)
        run.refused_first = row if (said := feasible.refusals.get(row)) and said.reasons else -1
        run.refused_there = feasible.refusals if run.refused_first >= 0 else {}
        if problem is not None or not feasible.count:
            return None
    run.attempt.evaluated_nodes = 1
    return feasible


def _is_searched(run: Run, row: int) -> bool:
    placement = run.context.placement
    return placement is None or bool(np.isin(row, placement))


def _refusal_on(run: Run, row: int) -> Refusal | None:
    """Why the pod does not fit on the row, beside those that are nominated to it. Raises PluginError."""
    beside = rivals(run.pod, run.context.nominator.pods_for_node(run.view.table.names[row]))
    if run.context.together:
        beside = tuple([other for other in beside if other.uid not in run.context.together])
    return filter_with_nominated(run.profile.filter_plugins, run.filters.states, run.pod, run.view, row, beside)


def _refused_where_nominated(run: Run) -> tuple[int, Refusal] | None:
    """The refusal of the nominated node that the diagnosis of a narrowed search keeps: its row, and why the pod does
    not fit there.

    kube-scheduler 1.36 keeps the refusal of the first look even of a node that the search then leaves out, and names
    the plugin behind it among those that the nodes left out do not satisfy.
    """
    name = run.pod.pod.status.nominated_node_name
    row = run.view.table.existing_row(name) if name and run.filters.subset_plugins else None
    if row is None or not _is_searched(run, row):
        return None
    try:
        refusal = _refusal_on(run, row)
    except PluginError:
        return None
    return None if refusal is None or refusal.code is Code.ERROR else (row, refusal)


# --- 4. Filter --------------------------------------------------------------------------------------------------------


def _fitting(run: Run) -> Feasible:
    filters = run.filters
    filters.refresh_rows(run.of_class)
    feasible = Feasible(filters.first, is_whole_class=True)
    if run.context.nominator.nodes:
        overlay = run.pod_class.overlay(run.pod.priority, run.profile.filter_plugins)
        feasible.beside_nominated = overlay.refusals(run.of_class, filters, run.context.nominator)
        is_lost = feasible.beside_nominated.codes[feasible.rows] != 0
        if is_lost.any():
            feasible.rows = feasible.rows[~is_lost]
            feasible.is_whole_class = False
    elif run.pod_class.overlays:
        run.pod_class.forget_nominated()
    if run.context.placement is not None:
        feasible.rows = np.intersect1d(feasible.rows, run.context.placement, assume_unique=True)
        feasible.is_whole_class = False
    return feasible


# --- 5. sampling ------------------------------------------------------------------------------------------------------


def _sample(run: Run, feasible: Feasible) -> Refusal | None:
    """Leave no more rows than the configuration wants to be found. The error, if the search meets one."""
    context, attempt, filters = run.context, run.attempt, run.filters
    own, common = run.profile.percentage_of_nodes_to_score, context.percentage_of_nodes_to_score
    percentage = percentage_in_force(own, common, context.extenders)
    failing = feasible.error_rows(filters, context.placement)
    if percentage is None:
        attempt.evaluated_nodes = attempt.total_nodes
        return feasible.error_on(filters, failing.item(0)) if len(failing) else None
    candidates = run.view.ordered_rows
    if context.placement is not None:
        candidates = candidates[np.isin(candidates, context.placement)]
    if filters.only is not None:
        candidates = candidates[filters.codes[candidates] != OUTSIDE]
    is_first_enough = nothing_scores(run.profile, context.extenders)
    wanted = 1 if is_first_enough else nodes_to_find(len(candidates), percentage)
    start = context.next_start
    sample = take_sample(candidates, feasible.rows, start, wanted, run.refused_first, failing)
    context.next_start = (start + sample.seen) % context.total_nodes
    attempt.evaluated_nodes = sample.seen
    if len(sample.rows) < feasible.count:
        feasible.rows = sample.rows
        feasible.is_whole_class, feasible.is_sample = False, True
        if run.extenders.filters:
            feasible.not_reached = not_reached(candidates, start, sample.reached)
    return feasible.error_on(filters, sample.failed) if sample.failed >= 0 else None


# --- 7. nothing fits --------------------------------------------------------------------------------------------------


def _no_fit(run: Run, diagnosis: Diagnosis) -> Generator[Calls, Answers, NotPlaced]:
    attempt, context, plugins = run.attempt, run.context, run.profile.post_filter_plugins
    if attempt.evaluated_nodes == 0:
        attempt.evaluated_nodes = attempt.total_nodes
    answer = NOT_ASKED
    if plugins:
        extenders = run.extenders
        asked = PostFilterContext(
            pod=run.pod,
            view=context.cache.fork().view if extenders.preempters and not extenders.is_needed else run.view,
            diagnosis=diagnosis,
            states=run.filters.states,
            profile=run.profile,
            rng=context.rng,
            now_nanoseconds=run.now.wall,
            nominated_pods=context.nominator.pods_for_node,
            policy=replace(context.policies.policy_of(run.pod, run.now), node_scope=run.profile.node_scope),
            on_trial=context.assumptions.on_trial,
            kept=context.kept,
            nominations=context.nominator,
            class_key=run.pod_class.key,
        )
        answer = yield from run_post_filters(plugins, asked, extenders, attempt.plugin_times)
        diagnosis = diagnosis.with_post_filter(answer.message)
        attempt.preemption, attempt.victims = answer.evidence, answer.victims
        run.clock.lap("PostFilter")
        if answer.code is not Code.SUCCESS:
            attempt.statuses["PostFilter"] = answer.code.value
    attempt.diagnosis = diagnosis
    return NotPlaced(
        context.kept.of(FitTexts).text(attempt.total_nodes, diagnosis),
        unschedulable_plugins=diagnosis.unschedulable_plugins,
        pending_plugins=diagnosis.pending_plugins,
        nomination=answer.nomination,
        room=answer.room,
        writes=answer.writes,
    )
