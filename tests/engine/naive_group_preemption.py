"""Preemption for a group as kube-scheduler 1.36 does it: the group's whole cycle for each pod that is given back."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.group_attempt import GroupResult
from scheduler.engine.group_cycle import GroupUnit, Search, Trial, forked, search
from scheduler.messages.now import Now


def outcome_of(trial: Search) -> Trial:
    while True:
        try:
            next(trial)
        except StopIteration as done:
            result: Trial = done.value
            return result


def naive(context: CycleContext, unit: GroupUnit, priority: int, now: Now) -> list[PodInfo] | None:
    """Every pod of a lower priority is taken away and given back, with the group's whole cycle each time; None if the
    group does not fit at all."""
    bare = forked(context)
    candidates = [info for info in context.cache.pods.values() if info.priority < priority]
    candidates.sort(key=lambda info: (-info.priority, info.pod.status.start_time or "9", info.key))
    for info in candidates:
        bare.cache.remove_pod(info.uid)

    def fits() -> bool:
        return outcome_of(search(forked(bare), unit, now)).result is GroupResult.SCHEDULED

    if not fits():
        return None
    gone = []
    for info in candidates:
        bare.cache.observe_pod(info)
        if not fits():
            bare.cache.remove_pod(info.uid)
            gone.append(info)
    return gone
