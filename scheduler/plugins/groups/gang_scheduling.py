"""GangScheduling: the pods of a gang start together, at least as many as its quorum, or none (KEP-4671).

A pod that names a group waits, unqueued, until the group's object exists and, for a gang, until as many of its pods
exist as must start together. On its node each then waits in Permit for the others, at most 5 minutes; the pod that
completes the quorum lets all of them go. Needs the feature gates GenericWorkload and GangScheduling, or the setting
groups.coscheduling.enabled for PodGroups of scheduler-plugins. No arguments.
"""

from __future__ import annotations

from scheduler.cluster.groups.apis import group_key
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.plugin import PermitPlugin, Permitted, PreEnqueuePlugin, Reads, State, Wait
from scheduler.framework.plugin_requests import AllowWaitingGroup
from scheduler.messages.status import Refusal, failure, unresolvable
from scheduler.objects.meta import ApiObject

WAITING_FOR_PODS = unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")


class GangScheduling(PreEnqueuePlugin, PermitPlugin):
    """See docs/kube-scheduler/podgroups.md §4, §6.1."""

    name = "GangScheduling"
    reads = Reads.NOTHING

    def pre_enqueue(self, pod: PodInfo, context: EnqueueContext) -> Refusal | None:
        key = context.groups.key_of(pod)
        if not key:
            return None
        group = context.groups.get(key)
        if group is None:
            name = key.partition("/")[2]
            return unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        return WAITING_FOR_PODS if group.min_count is not None and not context.groups.has_quorum(key) else None

    def permit(self, state: State | None, pod: PodInfo, view: View, node: str) -> Wait | Permitted | Refusal | None:
        key = view.groups.key_of(pod)
        if not key:
            return None
        group = view.groups.get(key)
        if group is None:
            name = key.partition("/")[2]
            return failure(f'failed to get podGroup {key}: podgroup.scheduling.k8s.io "{name}" not found')
        if group.min_count is None:
            return None
        if len(view.groups.members(key).placed) < group.min_count:
            return Wait(group.permit_seconds)
        return Permitted((AllowWaitingGroup(key),))

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _is_sibling(pod: PodInfo, _old: PodInfo | None, new: PodInfo | None) -> Hint:
    return Hint.QUEUE if new is not None and group_key(new) == group_key(pod) else Hint.SKIP


def _is_own_group(pod: PodInfo, _old: ApiObject | None, new: ApiObject | None) -> Hint:
    return Hint.QUEUE if new is not None and new.key == group_key(pod) else Hint.SKIP


def _key_of(group: ApiObject) -> str:
    return group.key


_EVENTS = (
    EventRegistration(ClusterEvent(Resource.POD, Action.ADD), _is_sibling, group_key),
    EventRegistration(ClusterEvent(Resource.POD_GROUP, Action.ADD), _is_own_group, _key_of),
    EventRegistration(
        ClusterEvent(Resource.COSCHEDULING_POD_GROUP, Action.ADD | Action.UPDATE), _is_own_group, _key_of
    ),
)
