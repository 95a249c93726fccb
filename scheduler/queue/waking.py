"""Which waiting pods an event is worth another attempt for (reference queue.md §6.1, §5).

This is the one place where hints are asked for pods of the pool: once for each group of pods that are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import ClusterEvent
from scheduler.queue.hints import HintMap, Strategy
from scheduler.queue.in_flight import InFlight
from scheduler.queue.pool import PoolGroup, UnschedulablePool
from scheduler.queue.queued_pod import QueuedPod

Only = Callable[[QueuedPod], bool]
"""Restricts an event to some of the pods."""


def worth_moving(
    pool: UnschedulablePool, hints: HintMap, event: ClusterEvent, old: Any, new: Any, only: Only | None
) -> list[tuple[QueuedPod, Strategy]]:
    """The pods of the pool that the event may help, none of them with SKIP. The pool is not changed.

    Gated pods hear only of what the plugin that holds them back has registered.
    """
    moving: list[tuple[QueuedPod, Strategy]] = []
    interest = hints.interest(event)
    for group in _groups(pool, hints, event):
        if group.gating_plugin and group.gating_plugin not in interest.get(group.profile, ()):
            continue
        members: Iterable[QueuedPod] = group.members.values()
        if only is not None:
            members = [record for record in members if only(record)]
        moving.extend(_worth_moving_of(members, hints, event, old, new))
    return moving


def _groups(pool: UnschedulablePool, hints: HintMap, event: ClusterEvent) -> list[PoolGroup]:
    if event.is_wildcard:
        return pool.groups
    groups = pool.groups_rejected_by(hints.interest(event))
    if not all(hints.knows(profile) for profile in pool.profiles):
        groups += [group for group in pool.groups if not hints.knows(group.profile)]
    return groups


def _worth_moving_of(
    members: Iterable[QueuedPod], hints: HintMap, event: ClusterEvent, old: Any, new: Any
) -> Iterator[tuple[QueuedPod, Strategy]]:
    """The event's own pod is asked for alone, since hints may know it by its UID; the others share one answer."""
    own = {pod.uid for pod in (old, new) if isinstance(pod, PodInfo)}
    shared: Strategy | None = None
    for record in members:
        if record.uid in own or event.is_wildcard:
            strategy = hints.strategy(record, event, old, new)
        else:
            if shared is None:
                shared = hints.strategy(record, event, old, new)
            if shared is Strategy.SKIP and not own:
                return
            strategy = shared
        if strategy is not Strategy.SKIP:
            yield record, strategy


def strategy_after_attempt(record: QueuedPod, in_flight: InFlight, hints: HintMap) -> Strategy:
    """What the events that came since the pod was popped are worth to it, now that its rejectors are known."""
    kept_events = in_flight.events_for(record.uid) if record.rejectors else None
    if kept_events is None:
        return Strategy.AFTER_BACKOFF
    strategy = Strategy.SKIP
    for kept in kept_events:
        answer = hints.strategy(record, kept.event, kept.old, kept.new)
        if answer is Strategy.IMMEDIATELY or (answer is Strategy.AFTER_BACKOFF and not record.pending_plugins):
            return answer
        if answer is Strategy.AFTER_BACKOFF:
            strategy = answer
    return strategy
