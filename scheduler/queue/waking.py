"""Decides which waiting pods an event moves (docs/kube-scheduler/queue.md §6.1, §5).

Only this module calls hints for pods of the pool: once for each group of equivalent pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator
from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import ClusterEvent
from scheduler.objects.meta import ApiObject, controller_of
from scheduler.queue.hints import HintMap, Listener, Strategy
from scheduler.queue.in_flight import InFlight
from scheduler.queue.pool import UnschedulablePool
from scheduler.queue.pool_group import PoolGroup
from scheduler.queue.queued_pod import QueuedPod

Only = Callable[[QueuedPod], bool]
"""Restricts an event to some of the pods."""

HeldBack = Callable[[str, str], Collection[str]]
"""Profile and PreEnqueue plugin → UIDs of pods that the plugin is certain to refuse again."""


def worth_moving(
    pool: UnschedulablePool,
    hints: HintMap,
    event: ClusterEvent,
    old: Any,
    new: Any,
    only: Only | None,
    held_back: HeldBack,
) -> Generator[None, None, list[tuple[QueuedPod, Strategy]]]:
    """The pods of the pool that the event may help, never with SKIP. Does not change the pool, which may not change
    before the end either. Yields after each group.

    Gated pods see only the events registered by the plugin that holds them back, and only while it may release them.
    """
    moving: list[tuple[QueuedPod, Strategy]] = []
    interest = hints.interest(event)
    own = _own_records(pool, old, new)
    held_by: dict[tuple[str, str], Collection[str]] = {}
    groups = yield from _groups(pool, hints, event, old, new, own)
    for group in groups:
        yield
        gate = group.gating_plugin
        if gate and gate not in interest.get(group.profile, ()):
            continue
        held: Collection[str] = ()
        if gate:
            known = held_by.get((group.profile, gate))
            held = held_by[group.profile, gate] = held_back(group.profile, gate) if known is None else known
            if held and all(record.info.uid in held for record in group.members.values()):
                # Preemptors with claims of their own are a group each, and wait in thousands.
                continue
        moving.extend(_worth_moving_of(group, hints, event, old, new, held, only, own))
    return moving


def _own_records(pool: UnschedulablePool, old: Any, new: Any) -> dict[str, QueuedPod]:
    """The waiting pods that the event's object is about, by UID: the pod itself, or the one that controls the object,
    as of a claim that was made for it. Hints may recognise them, by name or by status, which a group does not share."""
    found: dict[str, QueuedPod] = {}
    for obj in (old, new):
        key, uid = _pod_of(obj)
        record = pool.get(key) if uid else None
        if record is not None and record.uid == uid:
            found[uid] = record
    return found


def _pod_of(obj: Any) -> tuple[str, str]:
    """``namespace/name`` and UID of the pod that an event's object is, or that controls it; empty for any other."""
    if isinstance(obj, PodInfo):
        return obj.key, obj.uid
    controller = controller_of(obj.metadata) if isinstance(obj, ApiObject) else None
    if controller is None or controller.kind != "Pod":
        return "", ""
    return f"{obj.metadata.namespace}/{controller.name}", controller.uid


def _groups(
    pool: UnschedulablePool, hints: HintMap, event: ClusterEvent, old: Any, new: Any, own: dict[str, QueuedPod]
) -> Generator[None, None, Iterable[PoolGroup]]:
    """The groups to call hints for: a rejector has registered the event, and no cached answer says they stay."""
    if event.is_wildcard:
        return pool.groups
    found: dict[Hashable, PoolGroup] = {}
    for profile, interest in hints.interest(event).items():
        for plugin, listener in interest.items():
            index = pool.rejected_by(profile, plugin)
            if index is None:
                continue
            look = None if own else listener.look_of(old, new)
            if look is None:
                found.update(index.groups)
                continue

            def would_wake(group: PoolGroup, plugin: str = plugin, listener: Listener = listener) -> bool:
                return hints.would_wake(plugin, listener, group.representative.info, event, old, new)

            woken = yield from index.woken_by((event.resource, event.action, look), would_wake)
            found.update((group.key, group) for group in woken)
    if not hints.knows_all(pool.profiles):
        found.update((group.key, group) for group in pool.groups if not hints.knows(group.profile))
    return found.values()


def _worth_moving_of(
    group: PoolGroup,
    hints: HintMap,
    event: ClusterEvent,
    old: Any,
    new: Any,
    held: Collection[str],
    only: Only | None,
    own: dict[str, QueuedPod],
) -> Iterator[tuple[QueuedPod, Strategy]]:
    """Calls hints for the event's own pods one by one; the other members share one answer."""
    others: Collection[QueuedPod] = group.members.values()
    if held:
        others = [record for record in others if record.info.uid not in held]
    if only is not None:
        others = [record for record in others if only(record)]
    mine = [
        record
        for record in own.values()
        if group.members.get(record.key) is record and record.info.uid not in held and (only is None or only(record))
    ]
    if mine:
        others = [record for record in others if record.uid not in own]
    asked = [*mine, *others] if event.is_wildcard else mine
    for record in asked:
        strategy = hints.strategy(record, event, old, new)
        if strategy is not Strategy.SKIP:
            yield record, strategy
    first = None if event.is_wildcard else next(iter(others), None)
    if first is None:
        return
    shared = hints.strategy(first, event, old, new)
    if shared is not Strategy.SKIP:
        yield from ((record, shared) for record in others)


def strategy_after_attempt(record: QueuedPod, in_flight: InFlight, hints: HintMap) -> Strategy:
    """The strategy by the events since the pod was popped, now that its rejectors are known."""
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
