"""Eligibility: whether a pod may preempt at all (docs/kube-scheduler/preemption.md §2)"""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.config.tandem import PDBPolicy
from scheduler.framework.post_filter import PostFilterContext
from scheduler.framework.preemption_policy import PreemptionPolicy
from scheduler.messages.status import Code

NEVER = "not eligible due to preemptionPolicy=Never."
VICTIMS_STILL_DYING = "not eligible due to a terminating pod on the nominated node."
TOO_MANY = "not eligible due to too many preemptions running."

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTED_BY_SCHEDULER = "PreemptionByScheduler"
EVICTED = "EvictionByEvictionAPI"
"""The condition's reason that the API server writes instead, where victims leave by eviction."""


def why_not_eligible(context: PostFilterContext, policy: PreemptionPolicy) -> str:
    """The reason why the pod must not preempt now, "" if it may.

    A pod for which victims are dying waits for them; unless its nominated node turned out to be hopeless, is gone, or
    was given up.
    """
    pod = context.pod
    if pod.pod.spec.preemption_policy == "Never":
        return NEVER
    if policy.is_full:
        return TOO_MANY
    nominated = pod.pod.nominated_node_name
    if not nominated or nominated == policy.given_up_node:
        return ""
    diagnosis = context.diagnosis
    row = context.view.table.existing_row(nominated)
    status = diagnosis.absent if row is None else diagnosis.at(row)
    if row is None or status.code is Code.UNRESOLVABLE:
        return ""
    if policy.is_nominated_node_being_cleared:
        return VICTIMS_STILL_DYING
    there = context.view.table.pods[row].values()
    is_strict = policy.pdb_policy is PDBPolicy.STRICT
    is_waiting = any(policy.allows(info, pod) and is_dying_victim(info, is_strict) for info in there)
    return VICTIMS_STILL_DYING if is_waiting else ""


def is_dying_victim(info: PodInfo, was_evicted: bool = False) -> bool:
    """Whether the pod terminates because a scheduler preempted it, no matter which; drains and users' deletions don't
    count. ``was_evicted``: victims leave by eviction, which looks like a drain."""
    if not info.is_terminating:
        return False
    condition = info.pod.condition(DISRUPTION_TARGET)
    reasons = (PREEMPTED_BY_SCHEDULER, EVICTED) if was_evicted else (PREEMPTED_BY_SCHEDULER,)
    return condition is not None and condition.status == "True" and condition.reason in reasons
