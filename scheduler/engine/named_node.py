"""A decision about a pod that names its node, as the pods of a DaemonSet do.

Each of them is a class of its own, whose answers no other pod will ask for. So nothing is kept: the plugins are asked
about that node alone, and if the pod fits there, this is the decision that a search over all nodes would come to. For
anything else the cycle begins again without this shortcut, and finds out what to say.
"""

from __future__ import annotations

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_context import CycleContext, Depth, Laps
from scheduler.engine.outcome import CycleOutcome, Placed
from scheduler.engine.reservation import assume_and_reserve
from scheduler.engine.sampling import percentage_in_force
from scheduler.framework.class_run import PluginPoint
from scheduler.framework.classes.templates import unconcerned_by
from scheduler.framework.node_filter import filter_with_nominated, rivals
from scheduler.framework.plugin import NodeSubset, PermitPlugin, ReservePlugin, State
from scheduler.framework.plugin_times import timed
from scheduler.framework.profile import Profile
from scheduler.messages.status import SKIP, Refusal, Skip


class NamedNode(Struct, eq=False):
    """The one node that a pod may go to, where it fits; a ``reservation.Decision``."""

    context: CycleContext
    profile: Profile
    pod: PodInfo
    attempt: Attempt
    clock: Laps
    node: str
    states: dict[str, State | Skip]
    unconcerned: frozenset[str]
    reserve_plugins: tuple[ReservePlugin, ...]
    permit_plugins: tuple[PermitPlugin, ...]
    evaluated: frozenset[PluginPoint]

    def decide(self, depth: Depth) -> CycleOutcome:
        """Assume the pod and reserve what it needs or, for a preview, say where it goes."""
        context, attempt = self.context, self.attempt
        attempt.evaluated, attempt.only_nodes = self.evaluated, frozenset({self.node})
        attempt.feasible_nodes, attempt.evaluated_nodes = 1, attempt.total_nodes
        own, common = self.profile.percentage_of_nodes_to_score, context.percentage_of_nodes_to_score
        if percentage_in_force(own, common, ()) is not None:
            # Node sampling is in force: count as a search that found its one node at once.
            attempt.evaluated_nodes = 1
            context.next_start = (context.next_start + 1) % attempt.total_nodes
        if depth is Depth.DECIDE:
            return assume_and_reserve(self, self.node)
        attempt.node = self.node
        return Placed(self.pod.on_node(self.node), self.states)


def may_name_a_node(context: CycleContext, pod: PodInfo, depth: Depth) -> bool:
    """Whether to look for the pod's named node: where nothing but the plugins has a say in the decision."""
    affinity = pod.pod.node_affinity
    if affinity is None or affinity.required is None:
        return False
    terms = affinity.required.node_selector_terms
    if len(terms) != 1 or not terms[0].match_fields or pod.pod.status.nominated_node_name:
        return False
    return depth in (Depth.DECIDE, Depth.PREVIEW) and not context.extenders and context.placement is None


def find_named_node(context: CycleContext, profile: Profile, pod: PodInfo, attempt: Attempt) -> NamedNode | None:
    """The pod's named node if it fits there; None where the cycle has to go over all nodes, as when a plugin raises."""
    clock = Laps(context.stopwatch, attempt)
    try:
        found = _found(context, profile, pod, attempt, clock)
    except Exception:  # noqa: BLE001 - the plugin is asked again, where its error is reported
        found = None
    if found is None and attempt.plugin_times is not None:
        attempt.plugin_times.take()
    return found


def _found(context: CycleContext, profile: Profile, pod: PodInfo, attempt: Attempt, clock: Laps) -> NamedNode | None:
    view, times = context.cache.view, attempt.plugin_times
    unconcerned = unconcerned_by(pod, profile)
    states: dict[str, State | Skip] = {}
    evaluated: list[PluginPoint] = []
    only: frozenset[str] | None = None
    for plugin in profile.pre_filter_plugins:
        name = plugin.name
        answer = SKIP if name in unconcerned else timed(times, plugin.pre_filter, name, "PreFilter")(pod, view)
        if isinstance(answer, Refusal):
            return None
        if isinstance(answer, NodeSubset):
            only = answer.names if only is None else only & answer.names
            answer = answer.inner
        states[name] = answer
        if answer is not SKIP:
            evaluated.append((name, "PreFilter"))
    clock.lap("PreFilter")
    if only is None or len(only) != 1:
        return None
    [node] = only
    row = view.table.existing_row(node)
    if row is None or any(states.get(plugin.name, SKIP) is not SKIP for plugin in profile.stepwise_plugins):
        return None
    filters, beside = profile.filter_plugins, rivals(pod, context.nominator.pods_for_node(node))
    if filter_with_nominated(filters, states, pod, view, row, beside, times) is not None:
        return None
    evaluated += [(one.name, "Filter") for one in filters if states.get(one.name) is not SKIP]
    clock.lap("Filter")
    reserving, permitting = profile.reserving(unconcerned), profile.permitting(unconcerned)
    said = frozenset(evaluated)
    return NamedNode(context, profile, pod, attempt, clock, node, states, unconcerned, reserving, permitting, said)
