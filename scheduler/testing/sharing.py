"""Checks a plugin's declarations: compares cached answers with fresh ones through random changes of a cluster.

The plugin runs in a profile of its own beside a filter of the harness that refuses nodes by a label, so that scores
get changing sets of feasible nodes. Three evaluations are compared after each change: by a class cache used from the
beginning, by a new one shared by the pods, and by a new one for each pod.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.errors import PluginError
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.cache import ClassCache
from scheduler.framework.events import EventRegistration
from scheduler.framework.plugin import (
    FilterPlugin,
    FragmentReads,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    State,
    Verdicts,
)
from scheduler.framework.profile import Profile
from scheduler.framework.traits import traits_of
from scheduler.messages.status import unresolvable
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.testing.clusters import SIEVE_LABEL, Cluster, World
from scheduler.testing.violations import ContractViolation

_OUT = (unresolvable("taken away by the harness"),)


class Sieve(FilterPlugin):
    """Refuses nodes with a label of the harness."""

    name = "ContractSieve"
    reads = Reads.NODE
    fragment_reads = FragmentReads.TEMPLATE

    def fragment(self, pod: PodInfo, view: View) -> int:
        return 0

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts:
        return Verdicts((view.table.label(SIEVE_LABEL)[rows] != 0).astype(np.int16), _OUT)

    def events(self) -> tuple[EventRegistration, ...]:
        return ()


def check_sharing(plugin: Plugin, cluster: Cluster, rng: Random, changes: int) -> None:
    """Raises ContractViolation: ``fragment``, ``reads`` or, for errors that only show here, ``answers``."""
    if not isinstance(plugin, PreFilterPlugin | FilterPlugin | PreScorePlugin | ScorePlugin):
        return
    world = World(cluster)
    profile = _profile_of(plugin)
    kept = ClassCache()
    last = "at first"
    for step in range(changes + 1):
        if step:
            last = world.change(rng)
        shared = ClassCache()
        for pod in world.pending:
            alone = _answers(ClassCache(), plugin, profile, pod, world)
            if _answers(shared, plugin, profile, pod, world) != alone:
                message = (
                    f"pod {pod.name} has the fragment of another pod and different answers: "
                    "the fragment leaves out what the answers depend on"
                )
                raise ContractViolation(plugin.name, "fragment", message)
            found = _answers(kept, plugin, profile, pod, world)
            if found != alone:
                message = (
                    f"after this change: {last}; the answers kept for pods like {pod.name} are {found}, fresh ones "
                    f"{alone}: reads ({plugin.reads}), stamp or fragment leave out what the answers depend on"
                )
                raise ContractViolation(plugin.name, "reads", message)


def _answers(cache: ClassCache, plugin: Plugin, profile: Profile, pod: PodInfo, world: World) -> dict[str, Any]:
    """Node name → refusal or final score, as computed by a scheduling cycle."""
    view, journal = world.view, world.cache.journal
    names = view.table.names
    try:
        pod_class, fragments = cache.find(profile, pod, view)
        filters = pod_class.filters
        run = ClassRun(pod, fragments, view, journal)
        filters.refresh_pre_filters(run)
        if filters.pre_refusal is not None:
            return {"": filters.pre_refusal}
        filters.refresh_rows(run)
        answers: dict[str, Any] = {}
        for row in view.ordered_rows.tolist():
            code = int(filters.codes[row])
            answers[names[row]] = filters.refusals[code] if code > 0 else code
        if filters.first.feasible_count and profile.score_plugins:
            pod_class.scores.refresh(run, filters.first)
            for row in filters.feasible_rows.tolist():
                answers[names[row]] = int(pod_class.scores.totals[row])
        return answers
    except PluginError as error:
        rule = "answers" if isinstance(error.cause, TypeError | ValueError) else "raises"
        raise ContractViolation(plugin.name, rule, f"in a cycle for pod {pod.name}: {error}") from error


def _profile_of(plugin: Any) -> Profile:
    sieve = Sieve()
    declared = tuple(one for one in (plugin, sieve) if traits_of(one).is_declared)
    return Profile(
        scheduler_name="contract",
        percentage_of_nodes_to_score=None,
        plugins=(plugin, sieve),
        queue_sort=PrioritySort(),
        pre_enqueue_plugins=(),
        pre_filter_plugins=(plugin,) if isinstance(plugin, PreFilterPlugin) else (),
        filter_plugins=(plugin, sieve) if isinstance(plugin, FilterPlugin) else (sieve,),
        post_filter_plugins=(),
        score_plugins=((plugin, 1),) if isinstance(plugin, ScorePlugin) else (),
        reserve_plugins=(),
        permit_plugins=(),
        pre_bind_plugins=(),
        bind_plugins=(),
        post_bind_plugins=(),
        choosy_plugins=(),
        static_fragment_plugins=tuple(one for one in declared if one.fragment_reads is FragmentReads.TEMPLATE),
        cluster_fragment_plugins=tuple(one for one in declared if one.fragment_reads is not FragmentReads.TEMPLATE),
    )
