"""Decides which waiting pods an event moves (docs/kube-scheduler/queue.md §6.1, §5).

Only this module calls hints for pods of the pool: once for each group of equivalent pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, Set
from typing import Protocol

from msgspec import Struct, field

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import ClusterEvent, EventObject
from scheduler.objects.meta import ApiObject, controller_of
from scheduler.queue.hints import HintMap, Listener, Strategy
from scheduler.queue.in_flight import InFlight
from scheduler.queue.pool import UnschedulablePool
from scheduler.queue.pool_group import PoolGroup
from scheduler.queue.queued_pod import QueuedPod

_NO_UIDS: Set[str] = frozenset()
_GROUPS_A_STEP = 16
"""Groups that an event does not concern are passed over in steps of this number, each as long as one that is asked."""


class Only(Protocol):
    """Restricts an event to some of the pods."""

    def __call__(self, record: QueuedPod) -> bool: ...

    def may_concern(self, members: Mapping[str, QueuedPod]) -> bool:
        """Whether it may hold for any member of a group (by UID): what is found out of a group without its pods."""
        ...

    def among(self, members: Mapping[str, QueuedPod]) -> Iterable[QueuedPod]:
        """The members of a group (by UID) for which it holds, in their order."""
        ...


class OnlyIf:
    """A restriction that has to ask about each pod."""

    __slots__ = ("_holds",)

    def __init__(self, holds: Callable[[QueuedPod], bool]) -> None:
        self._holds = holds

    def __call__(self, record: QueuedPod) -> bool:
        return self._holds(record)

    def may_concern(self, members: Mapping[str, QueuedPod]) -> bool:
        return True

    def among(self, members: Mapping[str, QueuedPod]) -> Iterable[QueuedPod]:
        return filter(self._holds, members.values())


class Gatekeepers(Protocol):
    """The PreEnqueue plugins of all profiles (``gates.py``)."""

    def held_back(self, profile: str, name: str) -> Collection[str]:
        """UIDs of pods that the named plugin is certain to refuse again."""
        ...

    def may_release(self, profile: str, name: str, event: ClusterEvent) -> bool:
        """Whether an event of this kind may change what the named plugin said of a pod."""
        ...


class Wake(Struct):
    """One event, with the object before and after, and the search for the pods of the pool that it may help.

    The pool may not change before the end. ``only``: None = all pods.
    """

    pool: UnschedulablePool
    hints: HintMap
    event: ClusterEvent
    old: EventObject | None
    new: EventObject | None
    gatekeepers: Gatekeepers
    only: Only | None
    _own: dict[str, QueuedPod] = field(default_factory=dict)
    """By UID, the waiting pods that the event's object is about. Hints may recognise them, by name or by status, which
    a group does not share."""

    def worth_moving(self) -> Generator[None, None, list[tuple[QueuedPod, Strategy]]]:
        """The pods, never with SKIP. Yields after each group.

        Gated pods see only the events registered by the plugin that holds them back, and only while it may release
        them.
        """
        event = self.event
        moving: list[tuple[QueuedPod, Strategy]] = []
        interest = self.hints.interest(event)
        self._own = self._own_records()
        held_by: dict[tuple[str, str], Set[str]] = {}
        groups = yield from self._groups()
        only = self.only
        for number, group in enumerate(groups):
            if only is not None and not only.may_concern(group.members):
                if number % _GROUPS_A_STEP == 0:
                    yield
                continue
            yield
            gate = group.gating_plugin
            if gate and gate not in interest.get(group.profile, ()):
                continue
            if gate and not event.is_wildcard and not self.gatekeepers.may_release(group.profile, gate, event):
                continue
            held: Set[str] = _NO_UIDS
            if gate:
                known = held_by.get((group.profile, gate))
                if known is None:
                    uids = self.gatekeepers.held_back(group.profile, gate)
                    known = held_by[group.profile, gate] = uids if isinstance(uids, Set) else frozenset(uids)
                held = known
                if held and group.members.keys() <= held:
                    # Skipped as a whole: thousands of preemptors may wait.
                    continue
            moving.extend(self._of_group(group, held))
        return moving

    def _own_records(self) -> dict[str, QueuedPod]:
        """The waiting pods that the event's object is about: the pod itself, or the one that controls the object, as of
        a claim that was made for it."""
        found: dict[str, QueuedPod] = {}
        for obj in (self.old, self.new):
            key, uid = _pod_of(obj)
            record = self.pool.get(key) if uid else None
            if record is not None and record.uid == uid:
                found[uid] = record
        return found

    def _groups(self) -> Generator[None, None, Iterable[PoolGroup]]:
        """The groups to call hints for: a rejector has registered the event, and no cached answer says they stay."""
        event, pool, hints = self.event, self.pool, self.hints
        if event.is_wildcard:
            return pool.groups
        found: dict[Hashable, PoolGroup] = {}
        for profile, interest in hints.interest(event).items():
            for plugin, listener in interest.items():
                index = pool.rejected_by(profile, plugin)
                if index is None:
                    continue
                look = None if self._own else listener.look_of(self.old, self.new)
                if look is None:
                    found.update(index.groups)
                    continue

                def would_wake(group: PoolGroup, plugin: str = plugin, listener: Listener = listener) -> bool:
                    return hints.would_wake(plugin, listener, group.representative.info, event, self.old, self.new)

                woken = yield from index.woken_by(
                    (event.resource, event.action, look), would_wake, listener.keys, (self.old, self.new)
                )
                found.update((group.key, group) for group in woken)
        if not hints.knows_all(pool.profiles):
            found.update((group.key, group) for group in pool.groups if not hints.knows(group.profile))
        return found.values()

    def _of_group(self, group: PoolGroup, held: Set[str]) -> Iterator[tuple[QueuedPod, Strategy]]:
        """Calls hints for the event's own pods one by one; the other members share one answer."""
        mine = [
            record
            for uid, record in self._own.items()
            if group.members.get(uid) is record and uid not in held and (self.only is None or self.only(record))
        ]
        for record in mine:
            strategy = self._strategy(record)
            if strategy is not Strategy.SKIP:
                yield record, strategy
        others = self._others(group, held)
        if self.event.is_wildcard:
            yield from ((one, strategy) for one in others if (strategy := self._strategy(one)) is not Strategy.SKIP)
            return
        # Thousands may wait, and an event that leaves them where they are must not look at each of them.
        first = next(others, None)
        shared = self._strategy(first) if first is not None else Strategy.SKIP
        if first is not None and shared is not Strategy.SKIP:
            yield first, shared
            yield from ((record, shared) for record in others)

    def _others(self, group: PoolGroup, held: Set[str]) -> Iterator[QueuedPod]:
        """The members that the event is not about."""
        members: Iterable[QueuedPod] = group.members.values() if self.only is None else self.only.among(group.members)
        return (record for record in members if record.uid not in self._own and record.uid not in held)

    def _strategy(self, record: QueuedPod) -> Strategy:
        return self.hints.strategy(record, self.event, self.old, self.new)


def _pod_of(obj: EventObject | None) -> tuple[str, str]:
    """``namespace/name`` and UID of the pod that an event's object is, or that controls it; empty for any other."""
    if isinstance(obj, PodInfo):
        return obj.key, obj.uid
    controller = controller_of(obj.metadata) if isinstance(obj, ApiObject) else None
    if obj is None or controller is None or controller.kind != "Pod":
        return "", ""
    return f"{obj.metadata.namespace}/{controller.name}", controller.uid


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
