"""DefaultPreemption: removes pods of lower priority for a pod that fits nowhere, if its ``preemptionPolicy`` permits.

Nodes on which evictions could help are tried in turn, starting at a random one. On each the plugin finds the fewest and
least important pods whose removal lets the pod fit; those with an exhausted disruption budget are spared as far as
possible. Of the nodes found it chooses the one with the fewest violated budgets, then with the least important victims,
then with the fewest. The pod is nominated to that node and waits until its victims are gone; while they are being
removed, it stays out of the queue with ``waiting for the preemption for this pod to be finished``.

Arguments, the number of candidate nodes that ends the search:

- ``minCandidateNodesPercentage``: a percentage of the nodes on which evictions could help (10);
- ``minCandidateNodesAbsolute``: the minimum of that number (100).
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.config.field_faults import invalid
from scheduler.config.types import Int32
from scheduler.config.validators import in_range
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.framework.post_filter import PostFilterAnswer, PostFilterContext
from scheduler.messages.status import Refusal, unresolvable, unschedulable
from scheduler.objects.steps import Steps
from scheduler.preemption.evaluation import Candidates, Extent, begin_in_steps, conclude
from scheduler.preemption.plugin import PreemptionPlugin
from scheduler.preemption.pod_columns import PodColumns

_MAX_INT32 = 2**31 - 1

WAITS_FOR_REMOVAL = unresolvable("waiting for the preemption for this pod to be finished")

BOUND_TO_PLACEMENTS = PostFilterAnswer(
    unschedulable("preemption: not eligible due to placement-based pod group scheduling limitation")
)

LEFT_TO_THE_GROUP = PostFilterAnswer(unschedulable("preemption: not eligible due to workload aware preemption enabled"))
GROUP_WAITS_FOR_REMOVAL = unresolvable("waiting for the preemption for this pod group to be finished")


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, rename="camel"):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DefaultPreemption(PreEnqueuePlugin, PreemptionPlugin):
    """See docs/kube-scheduler/preemption.md. What is different for a preemptor comes with the context."""

    name = "DefaultPreemption"
    Args = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        super().__init__(args or DefaultPreemptionArgs())
        stated: DefaultPreemptionArgs = self.args
        self._extent = Extent(stated.min_candidate_nodes_percentage, stated.min_candidate_nodes_absolute)

    @classmethod
    def validate_args(cls, args: DefaultPreemptionArgs, path: str) -> tuple[tuple[str, str], ...]:
        percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
        percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        faults = [
            *in_range(percentage_path, percentage, 0, 100, "not in valid range [0, 100]"),
            *in_range(absolute_path, absolute, 0, _MAX_INT32, "not in valid range [0, inf)"),
        ]
        if percentage == absolute == 0:
            faults.append(invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute"))
            faults.append(invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage"))
        return tuple((fault.path, fault.message) for fault in faults)

    def pre_enqueue(self, pod: PodInfo, context: EnqueueContext) -> Refusal | None:
        if context.is_removing_victims_for(pod.uid):
            return WAITS_FOR_REMOVAL
        group = context.groups.of(pod)
        if group is not None and group.preempts_as_one and context.is_removing_victims_for(group.reference.uid):
            return GROUP_WAITS_FOR_REMOVAL
        return None

    def held_back(self, context: EnqueueContext) -> Collection[str]:
        return context.preemptors_held_back()

    def begin_in_steps(self, context: PostFilterContext) -> Steps[PostFilterAnswer | Candidates]:
        of_group = self._answer_of_group(context)
        if of_group is not None:
            return of_group
        return (yield from begin_in_steps(context, self._extent, context.policy, context.kept.of(PodColumns)))

    def _answer_of_group(self, context: PostFilterContext) -> PostFilterAnswer | None:
        """The answer for a member of a group that does not preempt for itself."""
        groups = context.view.groups
        group = groups.of(context.pod)
        if group is not None and group.has_constraints:
            return BOUND_TO_PLACEMENTS
        return LEFT_TO_THE_GROUP if groups.preempts_as_one(context.pod) else None

    def conclude(self, context: PostFilterContext, candidates: Candidates) -> PostFilterAnswer:
        return conclude(context, candidates, context.policy)

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _never_queue(_pod: PodInfo, _old: object, _new: object) -> Hint:
    """Never queues: a pod gated here waits for deletions only, and the plugins that rejected it judge those."""
    return Hint.SKIP


_EVENTS = (EventRegistration(ClusterEvent(Resource.POD, Action.DELETE), _never_queue),)
