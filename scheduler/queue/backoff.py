"""The back-off queues: pods that wait before the next attempt (docs/kube-scheduler/queue.md §11, §12)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import template_key
from scheduler.framework.sort_keys import SortKey
from scheduler.queue.active import QueueSort, order_by
from scheduler.queue.clock import SECOND
from scheduler.queue.early_heap import EarlyHeap, Waits
from scheduler.queue.pod_heap import PodHeap
from scheduler.queue.pool import ClassKey
from scheduler.queue.queued_pod import QueuedPod


class BackoffQueues:
    """Two heaps: pods that a plugin rejected, which may be taken early while the active queue is empty, and pods whose
    attempt ended with an error, which may not, since their wait protects the API server.

    ``initial`` and ``maximum`` are nanoseconds; a ``maximum`` of 0 disables back-off. With ``in_windows`` (pop from
    back-off) times are rounded to whole seconds: all pods whose wait ends within one second leave together, so that
    priority orders them and not the fraction of a second. Pods whose ``likeness_key`` is equal are refused alike; None
    for a pod like no other.
    """

    __slots__ = ("_errors", "_in_windows", "_initial", "_likeness_key", "_maximum", "_rejected", "_urgency")

    def __init__(
        self, queue_sort: QueueSort, initial: int, maximum: int, in_windows: bool, likeness_key: ClassKey = template_key
    ) -> None:
        self._likeness_key = likeness_key
        self._initial = initial
        self._maximum = maximum
        self._in_windows = in_windows
        self._urgency = order_by(queue_sort)
        self._rejected = EarlyHeap(self._by_expiration_and_urgency, self.class_of)
        self._errors = PodHeap(self._by_expiration)

    def set_limits(self, initial: int, maximum: int) -> None:
        """Sets the limits, in nanoseconds, of waits that begin from now on; current waits keep their end."""
        self._initial = initial
        self._maximum = maximum

    # --- the formula --------------------------------------------------------------------------------------------------

    def duration(self, record: QueuedPod) -> int:
        """The wait in nanoseconds: doubled with each consecutive error or, without errors, with each rejection."""
        count = record.error_count or record.unschedulable_count
        if count == 0 or self._maximum == 0:
            return 0
        if self._initial > self._maximum >> (count - 1):
            return self._maximum
        return self._initial << (count - 1)

    def expiration(self, record: QueuedPod) -> int:
        """When the wait ends, rounded down to its window; cached in the record. 0 for a pod without a wait."""
        if record.backoff_expiration is None:
            duration = self.duration(record)
            record.backoff_expiration = self._window(record.timestamp + duration) if duration else 0
        return record.backoff_expiration

    def is_backing_off(self, record: QueuedPod, time: int) -> bool:
        """Whether the pod still waits: up to and including its window, so it leaves at the first whole second *after*
        its expiration."""
        expiration = record.backoff_expiration
        if expiration is None:
            expiration = self.expiration(record)
        return expiration > 0 and expiration >= self._window(time)

    def _window(self, time: int) -> int:
        return time - time % SECOND if self._in_windows else time

    def _by_expiration(self, record: QueuedPod) -> SortKey:
        return (self.expiration(record),)

    def _by_expiration_and_urgency(self, record: QueuedPod) -> SortKey:
        return (self.expiration(record), *self._urgency(record))

    def class_of(self, record: QueuedPod) -> Hashable:
        """Equal for pods whose attempts end alike; the UID of a pod with a state of its own, which is like no other."""
        if record.group or record.is_nominated or _has_own_state(record.info):
            return record.uid
        return self._likeness_key(record.info) or record.uid

    # --- the heaps ----------------------------------------------------------------------------------------------------

    def add(self, record: QueuedPod) -> None:
        """Adds a pod; one without rejectors goes to the heap for errors."""
        (self._rejected if record.rejectors else self._errors).put(record)

    def replace(self, record: QueuedPod) -> None:
        """Restores the heap's order after the record's pod has changed."""
        (self._rejected if record.key in self._rejected else self._errors).put(record)

    def get(self, key: str) -> QueuedPod | None:
        return self._rejected.get(key) or self._errors.get(key)

    def remove(self, key: str) -> QueuedPod | None:
        return self._rejected.remove(key) or self._errors.remove(key)

    def take_early(self, state: Hashable, waits: Waits) -> QueuedPod | None:
        """Removes and returns the rejected pod whose wait ends first, even if that is in the future; never one that
        had an error, nor one that is like another that found no node in this state of the cluster, or that ``waits``
        since it found none."""
        return self._rejected.take_early(state, waits)

    def found_no_node(self, record: QueuedPod, state: Hashable) -> None:
        """Note that an attempt found no node in this state of the cluster: pods of its class are not taken early."""
        mounted = record.info.pod.spec.volumes
        has_claims = any(each.persistent_volume_claim is not None or each.ephemeral is not None for each in mounted)
        self._rejected.failed(record, state, has_claims=has_claims)

    def forget_failures(self) -> None:
        """Forget which classes found no node, since the plugins have been replaced."""
        self._rejected.forget_failures()

    def take_complete(self, time: int) -> Iterator[QueuedPod]:
        """Removes and returns the pods whose wait is over, one by one."""
        for heap in (self._rejected, self._errors):
            while (record := heap.head()) is not None and not self.is_backing_off(record, time):
                heap.take()
                yield record

    def next_release(self) -> int | None:
        """The whole second at which the next pods leave, or None."""
        rejected, failed = self._rejected.head(), self._errors.head()
        if rejected is None and failed is None:
            return None
        first = min(self.expiration(record) for record in (rejected, failed) if record is not None)
        return (first // SECOND + 1) * SECOND

    def release_of(self, record: QueuedPod) -> int:
        """The whole second at which this pod leaves."""
        return (self.expiration(record) // SECOND + 1) * SECOND

    @property
    def rejected(self) -> PodHeap:
        return self._rejected

    @property
    def errors(self) -> PodHeap:
        return self._errors

    def __len__(self) -> int:
        return len(self._rejected) + len(self._errors)


def _has_own_state(info: PodInfo) -> bool:
    """Whether an attempt reads more of the pod than its template."""
    pod, status = info.pod, info.pod.status
    has_claims = bool(pod.spec.resource_claims) or status.extended_resource_claim_status is not None
    return has_claims or bool(status.nominated_node_name) or info.has_own_amounts
