"""Event handlers: each change of the cluster updates the cache and then the queue; failed pods are requeued.

The cache is updated before the queue, for every kind; only a node's deletion is announced first, while the node is
still known (docs/kube-scheduler/cycle.md §2, §9; queue.md §6.6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.effects import Effect
from scheduler.cluster.groups.group import GANG_PLUGIN
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Action, ClusterEvent
from scheduler.framework.post_filter import CLEAR_NOMINATION, Nomination, NominationMode
from scheduler.messages.now import Now
from scheduler.objects.changes import node_difference
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.queue.aftermath import NOTHING, Aftermath, Fate, PermitWaits, VictimsEnd
from scheduler.queue.claim_writes import ClaimWrites
from scheduler.queue.cluster_events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    PENDING_POD_ADD,
    PENDING_POD_DELETE,
    node_events,
    object_event,
    pod_events,
)
from scheduler.queue.known_pods import KnownPods
from scheduler.queue.nominated_room import NominatedRoom
from scheduler.queue.our_pods import OurPods
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.queue.story import Place
from scheduler.queue.versions import is_overtaken, is_same_version
from scheduler.queue.waking import OnlyIf


class EventHandlers:
    """The one writer of cache, queue, nominator and known pods.

    ``stopwatch`` (seconds) measures what the handling takes, and feeds no decision.
    """

    def __init__(
        self,
        cache: ClusterCache,
        queue: SchedulingQueue,
        known_pods: KnownPods,
        bindings: PermitWaits,
        room: VictimsEnd,
        ours: OurPods,
        stopwatch: Callable[[], float] | None = None,
    ) -> None:
        self._bindings = bindings
        self._room = room
        self._stopwatch = stopwatch
        self._begun = 0.0
        self._cache = cache
        self._queue = queue
        self.claim_writes = ClaimWrites(cache, queue)
        self._nominator = queue.nominator
        self._nominated_room = NominatedRoom(queue)
        self._known_pods = known_pods
        self._ours = ours

    def reconfigure(self, ours: OurPods, now: Now) -> None:
        """Other scheduler names are ours now: pods that wait under a new one are queued, those of a dropped one leave
        (an attempt under way ends by itself)."""
        names_before, counted_before = self._ours.profile_names, self._ours.counts_foreign_nominations
        self._ours, counts_foreign_nominations = ours, ours.counts_foreign_nominations
        for info in list(self._known_pods):
            if info.node_name:
                continue
            was_ours, is_ours = info.pod.spec.scheduler_name in names_before, self._is_ours(info)
            if was_ours and not is_ours:
                self._queue.delete(info)
                self._cache.groups.pending_gone(info)
            elif counted_before and not was_ours and (is_ours or not counts_foreign_nominations):
                self._nominator.forget_foreign(info.uid)
            if is_ours and not was_ours:
                self._enter_queue(info, now)
                self._queue.finish_waking()
            elif not is_ours and counts_foreign_nominations and (was_ours or not counted_before):
                self._nominator.observe_foreign(info)

    # --- the door -----------------------------------------------------------------------------------------------------

    def on_observed(self, kind: Kind, obj: ApiObject, now: Now) -> Aftermath:
        """The watch or a list shows an object, new, changed, or as it was."""
        self._begun = self._stopwatch() if self._stopwatch is not None else 0.0
        if isinstance(obj, Pod):
            info = PodInfo(obj)
            gone = self._predecessor_gone(info, now)
            aftermath = self._pod_observed(info, now)
            return aftermath if gone is NOTHING else replace(aftermath, reject_waiting=gone.reject_waiting)
        if isinstance(obj, Node):
            self._node_observed(obj, now)
            return NOTHING
        old = self._cache.objects.get(kind, obj.key)
        if old is not None and (is_same_version(old, obj) or is_overtaken(kind, old, obj)):
            return NOTHING
        self._cache.observe_object(kind, obj)
        if old is None and (doubled := self._cache.groups.doubled(kind, obj.key)):
            self._queue.facts.problem(doubled)
        event = object_event(kind, Action.ADD if old is None else Action.UPDATE)
        if event is not None:
            self._queue.move_all(event, old, obj, now)
            self._handled(event)
        self.claim_writes.announce_devices(now)
        return NOTHING

    def on_deleted(self, kind: Kind, obj: ApiObject, is_stale: bool, now: Now) -> Aftermath:
        """An object is gone. ``is_stale``: the deletion was missed, ``obj`` is only the last version seen."""
        self._begun = self._stopwatch() if self._stopwatch is not None else 0.0
        if isinstance(obj, Pod):
            return self._pod_deleted(PodInfo(obj), is_stale, now)
        if isinstance(obj, Node):
            self._queue.move_all(NODE_DELETE, obj, None, now)
            self._queue.finish_waking()
            self._cache.remove_node(obj.metadata.name)
            self._handled(NODE_DELETE)
            return NOTHING
        self._cache.remove_object(kind, obj.key)
        if (event := object_event(kind, Action.DELETE)) is not None:
            self._queue.move_all(event, obj, None, now)
            self._handled(event)
        self.claim_writes.announce_devices(now)
        return NOTHING

    def _handled(self, event: ClusterEvent) -> None:
        """Measure what the change in hand took so far, for ``event_handling_duration_seconds``."""
        if self._stopwatch is not None:
            self._queue.facts.event_took(event.label, self._stopwatch() - self._begun)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _node_observed(self, node: Node, now: Now) -> None:
        cache = self._cache
        old = cache.table.node(node.metadata.name)
        if old is not None and is_same_version(old, node):
            return
        if old is not None and old.metadata.uid == node.metadata.uid:
            difference = node_difference(old, node)
            cache.replace_node(old, node, difference)
            for event in node_events(old, node, difference) if difference else ():
                self._queue.move_all(event, old, node, now)
                self._handled(event)
            return
        if old is not None:
            # Deleted and created again between two lists.
            self._queue.move_all(NODE_DELETE, old, None, now)
            self._queue.finish_waking()
            cache.observe_node(node)
        else:
            cache.add_node(node)
        self._queue.move_all(NODE_ADD, None, node, now)
        self._handled(NODE_ADD)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _predecessor_gone(self, info: PodInfo, now: Now) -> Aftermath:
        """The end of the pod that was known by this name, if it was made again, or is bound no longer or elsewhere, as
        when etcd was restored from a backup."""
        old = self._known_pods.get(info.key)
        if old is None or (old.uid == info.uid and old.node_name in ("", info.node_name)):
            return NOTHING
        aftermath = self._pod_deleted(old, True, now)
        self._queue.finish_waking()
        return aftermath

    def _pod_observed(self, info: PodInfo, now: Now) -> Aftermath:
        old, pod = self._known_pods.get(info.key), info.pod
        if pod.is_finished:
            return self._pod_deleted(info, False, now) if old is not None else NOTHING
        self._known_pods.put(info)
        if old is not None:
            info.take_terms(old)
        if info.node_name:
            if old is not None and old.node_name:
                return self._assigned_pod_changed(old, info, now)
            return self._pod_became_assigned(old, info, now)
        if not self._is_ours(info):
            self._foreign_pod_waits(old, info, now)
            return NOTHING
        if old is None:
            self._enter_queue(info, now)
            self._handled(PENDING_POD_ADD)
        elif not is_same_version(old.pod, pod):
            return self._pending_pod_changed(old, info, now)
        return NOTHING

    def _enter_queue(self, info: PodInfo, now: Now) -> None:
        """Queue a pod of ours. The siblings of one that completes its group's quorum are woken.

        kube-scheduler 1.36 announces each pod to all others, which costs a gang the square of its size.
        """
        key = self._cache.groups.pending_shown(info)
        self._queue.add(info, now)
        self._wake_siblings(key, info, now)

    def _wake_siblings(self, group: str, joined: PodInfo, now: Now) -> None:
        if self._cache.groups.has_quorum(group):
            self._queue.move_all(PENDING_POD_ADD, None, joined, now)

    def _assigned_pod_changed(self, old: PodInfo, new: PodInfo, now: Now) -> Aftermath:
        confirmation = self._cache.observe_pod(new)
        for event in pod_events(old.pod, new.pod):
            self._queue.move_all(event, old, new, now)
            self._handled(event)
        key = self._cache.groups.key_of(new)
        if key and key != self._cache.groups.key_of(old):
            self._wake_siblings(key, new, now)
        return Aftermath(confirmation)

    def _pod_became_assigned(self, old: PodInfo | None, new: PodInfo, now: Now) -> Aftermath:
        """Apply the assignment of a pod: bound by us or by another scheduler, or already bound when first observed."""
        assumed = self._cache.assumed(new.uid)
        nominated_node = self._nominator.nominated_node(new.uid) if assumed is None else ""
        self._cache.groups.pending_gone(old or new)
        confirmation = self._cache.observe_pod(new)
        self._queue.move_all(ASSIGNED_POD_ADD, None, new, now)
        if self._is_ours(new):
            self._queue.delete(new)
        else:
            self._nominator.forget_foreign(new.uid)
        if assumed is not None and assumed.node_name != new.node_name:
            self._queue.move_all(ASSIGNED_POD_DELETE, assumed, None, now)
        elif assumed is None and nominated_node and nominated_node != new.node_name:
            # kube-scheduler 1.36 sends no event here, so pods that fit in the room keep waiting.
            self._nominated_room.ended(old or new, nominated_node, now)
        self._handled(ASSIGNED_POD_ADD)
        return Aftermath(confirmation)

    def _pending_pod_changed(self, old: PodInfo, new: PodInfo, now: Now) -> Aftermath:
        key, is_another = self._cache.groups.pending_changed(old, new)
        if self._cache.is_assumed(new.uid):
            if new.is_terminating and not old.is_terminating:
                return self._assumed_pod_deleted(new.uid, now)
            return NOTHING
        place = self._queue.update(old, new, now)
        self._nominated_room.status_changed(old, new, now)
        if is_another:
            if place is not Place.IN_FLIGHT:
                self._queue.add(new, now)
            self._wake_siblings(key, new, now)
        for event in pod_events(old.pod, new.pod) if self._stopwatch is not None else ():
            self._handled(event)
        return NOTHING

    def _foreign_pod_waits(self, old: PodInfo | None, new: PodInfo, now: Now) -> None:
        if self._ours.counts_foreign_nominations:
            self._nominator.observe_foreign(new)
            if old is not None:
                self._nominated_room.status_changed(old, new, now)

    def _pod_deleted(self, info: PodInfo, is_stale: bool, now: Now) -> Aftermath:
        known = self._known_pods.remove(info)
        if is_stale and known is not None:
            info = known
        self._cache.groups.pending_gone(known or info)
        is_assumed = self._cache.is_assumed(info.uid)
        placed = None if is_assumed and not info.node_name else self._cache.remove_pod(info.uid)
        if self._is_ours(info):
            self._queue.delete(info)
        else:
            self._nominator.forget_foreign(info.uid)
        if info.node_name or placed is not None:
            gone = info if info.node_name else placed
            only = self._room.concerned_by(gone) if gone is not None else None
            self._queue.move_all(ASSIGNED_POD_DELETE, gone, None, now, only)
            self._handled(ASSIGNED_POD_DELETE)
        elif is_assumed:
            return self._assumed_pod_deleted(info.uid, now)
        elif self._is_ours(info) or self._ours.counts_foreign_nominations:
            self._nominated_room.status_changed(info, None, now)
            self._handled(PENDING_POD_DELETE)
        return NOTHING

    def _assumed_pod_deleted(self, uid: str, now: Now) -> Aftermath:
        """Free the room of an assumed pod that terminates."""
        held, is_waiting = self._cache.placed(uid), self._bindings.waits_in_permit(uid)
        if not is_waiting:
            self._cache.forget(uid)
        self._queue.move_all(ASSIGNED_POD_DELETE, held, None, now)
        self.claim_writes.announce_devices(now)
        self._handled(PENDING_POD_DELETE)
        return Aftermath(reject_waiting=uid) if is_waiting else NOTHING

    def _is_ours(self, info: PodInfo) -> bool:
        return info.pod.spec.scheduler_name in self._ours.profile_names

    # --- decisions ----------------------------------------------------------------------------------------------------

    on_trial = ()
    """None: these assumptions are made on the live cluster."""

    def assume(self, info: PodInfo) -> None:
        """Count the pod on its node and drop its nomination. Raises InvariantViolation if it is placed already."""
        self._cache.assume(info)
        self._nominator.delete(info.uid)

    def release(self, uid: str, *, is_announced: bool = False) -> None:
        """Forget an assumed pod without an event for the queue. ``is_announced``: ``RoomTakenBack`` follows."""
        self._cache.forget(uid)
        if not is_announced:
            self.claim_writes.keep_quiet()

    def apply(self, effects: Iterable[Effect]) -> None:
        """Apply the effects of Reserve and Unreserve to the cache."""
        for effect in effects:
            self._cache.apply(effect)

    def placed(self, info: PodInfo, now: Now) -> None:
        """Announce the room that a pod was nominated to, if its attempt has placed it on another node."""
        node = info.pod.status.nominated_node_name
        if node and node != info.node_name:
            self._nominated_room.ended(info, node, now)

    def nomination_withdrawn(self, uid: str, now: Now) -> None:
        """A more important pod takes the node: drop a nomination that the watch has not shown, and may never show."""
        node, info = self._nominator.nominated_node(uid), self._known_pods.by_uid(uid)
        if node and info is not None and info.pod.status.nominated_node_name != node:
            self._nominator.delete(uid)
            self._nominated_room.ended(info, node, now)

    # --- failed attempts ----------------------------------------------------------------------------------------------

    def gave_up_room(self, record: QueuedPod, now: Now) -> bool:
        """Drop the nomination of a pod that its gang now gates, which frees the room; returns whether it had one.

        kube-scheduler 1.36 keeps the room for it, for ever if the gang is never complete.
        """
        node = self._nominator.nominated_node(record.uid)
        if not node or record.gating_plugin != GANG_PLUGIN:
            return False
        self._nominator.delete(record.uid)
        self._nominated_room.ended(record.info, node, now)
        return True

    def requeue_tried(self, record: QueuedPod, nomination: Nomination, now: Now) -> Fate:
        """``requeue_failed`` after a scheduling cycle, and announce the room that the pod is nominated to no more, if
        the watch has not shown that it was."""
        before = self._nominator.nominated_node(record.uid)
        fate = self.requeue_failed(record, nomination, now)
        self._nominated_room.decided(record.info, before, self._nominator.nominated_node(record.uid), now)
        return fate

    def requeue_failed(self, record: QueuedPod, nomination: Nomination, now: Now) -> Fate:
        """Requeue the pod of a failed attempt, whose rejectors are on the record, and end the attempt (``done``).

        The pod is queued in its latest version. Its nomination is set after that and before anything is written, so
        that the next attempt of any pod already sees it.
        """
        latest = self._known_pods.get(record.key)
        if latest is None or latest.uid != record.uid or latest.node_name:
            self._queue.done(record.uid)
            self._nominator.delete(record.uid)
            if latest is None:
                return Fate.GONE
            return Fate.BOUND if latest.uid == record.uid else Fate.RECREATED
        tried = record.info
        record.replace_pod(latest)
        record.group = self._cache.groups.key_of(latest)
        is_kept = nomination.mode is NominationMode.KEEP and self._nominator.nominated_node(record.uid) != ""
        record.is_nominated = is_kept or nomination.mode is NominationMode.SET
        self._queue.add_unschedulable(record, now)
        if nomination.mode is NominationMode.KEEP:
            self._nominator.keep(tried, latest)
        else:
            self._nominator.nominate(latest, nomination.node_name)
        return Fate.REQUEUED

    def requeue_unbound(self, record: QueuedPod, assumed: PodInfo, is_rejection: bool, now: Now) -> Fate:
        """Requeue the pod of a failed binding cycle, after everything reserved was unreserved. ``assumed``: the pod.

        After an error every waiting pod gets the event of the freed room first, the pods in flight included. After a
        rejection (by Permit) the pod itself must not get it: its own failure would wake it. If the watch has confirmed
        the pod meanwhile, its bind has succeeded after all, and nothing was freed.
        """
        uid = record.uid
        is_confirmed = self._cache.placed(uid) is not None and not self._cache.is_assumed(uid)
        if not is_confirmed:
            self._cache.forget(uid)
            if not is_rejection:
                self._queue.move_all(ASSIGNED_POD_DELETE, assumed, None, now)
        fate = self.requeue_failed(record, CLEAR_NOMINATION, now)
        if is_rejection and not is_confirmed:
            self._queue.move_all(ASSIGNED_POD_DELETE, assumed, None, now, OnlyIf(lambda other: other.uid != uid))
        self.claim_writes.announce_devices(now, but=uid)
        return fate
