"""Compares the engine's state with the API server's lists, and repairs differences.

Nothing should ever differ: each repair is a bug found, here or in a watch, and is counted and logged. Missed pods and
nodes go through the same handlers as any event, so that the queue sees them.

Only after a restore of etcd is a difference no bug: what the API server has granted, a binding or a deletion, may be
gone before any watch has shown it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import UNSCHEDULABLE_TIMEOUT
from scheduler.messages.commands import ReportKnownObjects
from scheduler.messages.now import Now
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import Reconciled
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.queue.handlers import EventHandlers
from scheduler.queue.known_pods import KnownPods
from scheduler.queue.scheduling_queue import SchedulingQueue

Repair = tuple[Kind, str]
"""Descriptions of the repairs."""


class BindingsUnderWay(Protocol):
    def get(self, uid: str) -> object | None: ...


class Granted(Protocol):
    """Deletions that the API server has granted."""

    def was_lost(self, pod: Pod, now: Now) -> bool: ...


class Writes(Struct, frozen=True):
    """What is, or was, written for pods."""

    bindings: BindingsUnderWay
    deletions: Granted


class Attempts(Protocol):
    @property
    def is_paused(self) -> bool:
        """Whether a pod or a group is between two steps of its attempt."""


class Reconciliation:
    """One comparison. Pending pods of the schedulers ``profile_names`` must be in the queue or in a binding cycle, or
    be tried."""

    def __init__(
        self,
        cache: ClusterCache,
        known_pods: KnownPods,
        handlers: EventHandlers,
        queue: SchedulingQueue,
        writes: Writes,
        profile_names: Collection[str],
        attempts: Attempts,
    ) -> None:
        self._cache = cache
        self._known_pods = known_pods
        self._handlers = handlers
        self._queue = queue
        self._bindings = writes.bindings
        self._granted = writes.deletions
        self._profile_names = profile_names
        self._attempts = attempts

    def known_objects(self) -> ReportKnownObjects:
        """The names of all nodes and the UIDs of all pods in the engine's state, and the unconfirmed bindings. Most
        pods are in both parts of it: to compare those would take 10 ms with 150,000 pods."""
        answered = [info for info in self._cache.assumed_pods if self._is_answered(info.uid)]
        unconfirmed = [(PodReference(info.namespace, info.name, info.uid), info.node_name) for info in answered]
        return ReportKnownObjects(self._cache.node_names(), [*self._known_pods.uids, *self._cache.pods], unconfirmed)

    def mend(self, part: Reconciled, now: Now) -> tuple[Repair, ...]:
        """Repair what differs from this part of the API server's state; returns a line for each repair."""
        repairs = [*self._mend_bindings(part.lost_bindings, now), *self._mend_deletions(part.pods, now)]
        repairs += self._mend_pods(part, now)
        repairs += self._mend_queue(part.pods, now)
        placed = {uid: self._info_of(pod) for uid, pod in part.pods.items() if pod.spec.node_name}
        waiting = [uid for uid, pod in part.pods.items() if not pod.spec.node_name]
        deeper = self._cache.reconcile(part.nodes, placed, part.absent_nodes, [*part.absent_pods, *waiting])
        repairs += [(Kind.NODE if line.startswith("node ") else Kind.POD, line) for line in deeper]
        if deeper:
            # No event has reported the freed room to the queue.
            self._queue.move_all(UNSCHEDULABLE_TIMEOUT, None, None, now)
        return tuple(repairs)

    def _mend_bindings(self, lost: Mapping[str, str], now: Now) -> list[Repair]:
        """Place pods again whose bindings were answered and are gone."""
        repairs: list[Repair] = []
        for uid, node in lost.items():
            assumed, known = self._cache.assumed(uid), self._known_pods.by_uid(uid)
            if known is None or known.node_name or assumed is None or assumed.node_name != node:
                continue
            if self._is_answered(uid):
                self._shown_again(known.pod, now)
                repairs.append((Kind.POD, f"pod {known.key} is no longer bound to node {node}"))
        return repairs

    def _mend_deletions(self, pods: Mapping[str, Pod], now: Now) -> list[Repair]:
        """Take victims for what they are whose deletions were granted and are gone."""
        repairs: list[Repair] = []
        for pod in pods.values():
            if self._granted.was_lost(pod, now):
                self._shown_again(pod, now)
                repairs.append((Kind.POD, f"pod {pod.key} no longer terminates"))
        return repairs

    def _shown_again(self, pod: Pod, now: Now) -> None:
        """Forget all that is known of the pod besides what the API server says."""
        self._handlers.on_deleted(Kind.POD, pod, True, now)
        self._queue.finish_waking()
        self._handlers.on_observed(Kind.POD, pod, now)
        self._queue.finish_waking()

    def _is_answered(self, uid: str) -> bool:
        """Whether an assumed pod has been bound, as far as the API server's answer goes."""
        return self._bindings.get(uid) is None and not self._queue.is_in_flight(uid)

    def _mend_pods(self, part: Reconciled, now: Now) -> list[Repair]:
        repairs: list[Repair] = []
        for uid in part.absent_pods:
            self._mend_gone(self._known_pods.by_uid(uid), repairs, now)
        for uid, pod in part.pods.items():
            if self._known_pods.by_uid(uid) is None:
                # Another pod of that name can only be one whose deletion was missed.
                self._mend_gone(self._known_pods.get(pod.key), repairs, now)
                self._handlers.on_observed(Kind.POD, pod, now)
                self._queue.finish_waking()
                repairs.append((Kind.POD, f"pod {pod.key} was unknown"))
        return repairs

    def _mend_gone(self, info: PodInfo | None, repairs: list[Repair], now: Now) -> None:
        if info is not None:
            self._handlers.on_deleted(Kind.POD, info.pod, True, now)
            self._queue.finish_waking()
            repairs.append((Kind.POD, f"pod {info.key} no longer exists"))

    def _mend_queue(self, pods: Mapping[str, Pod], now: Now) -> list[Repair]:
        repairs: list[Repair] = []
        for uid, pod in pods.items():
            known = self._known_pods.by_uid(uid)
            if (
                known is None
                or known.node_name
                or known.is_terminating
                or pod.spec.scheduler_name not in self._profile_names
            ):
                continue
            if self._queue.find(known.key) is None and not self._is_busy(uid):
                # An error of ours ended its attempt: it is still marked as in flight.
                self._queue.done(uid)
                self._queue.add(known, now)
                repairs.append((Kind.POD, f"pod {known.key} waited in no queue"))
        return repairs

    def _is_busy(self, uid: str) -> bool:
        """Whether the pod is being tried, bound or assumed, and so need not be in the queue."""
        is_on_its_way = self._bindings.get(uid) is not None or self._cache.is_assumed(uid)
        return is_on_its_way or (self._queue.is_in_flight(uid) and self._attempts.is_paused)

    def _info_of(self, pod: Pod) -> PodInfo:
        known = self._known_pods.by_uid(pod.uid)
        return known if known is not None and known.node_name == pod.spec.node_name else PodInfo(pod)
