"""The queue's record of a pod, from its first event until it is bound (docs/kube-scheduler/queue.md §1.1)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from scheduler.cluster.pod_info import PodInfo

NO_PLUGINS: frozenset[str] = frozenset()


class QueuedPod:
    """One pod and the state of its attempts. Times are queue time in nanoseconds (``clock.py``).

    Only the queue and the failure handling change a record, and never while it lies in a heap or in the pool without
    the queue knowing.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "class_key",
        "error_count",
        "gating_plugin",
        "gating_reasons",
        "group",
        "info",
        "initial_attempt",
        "is_nominated",
        "key",
        "pending_plugins",
        "timestamp",
        "uid",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, info: PodInfo, timestamp: int, group: str = "") -> None:
        self.info = info
        self.uid = info.uid
        self.key = info.key
        self.group = group
        """``namespace/name`` of the group with which the pod is tried; "" if it is tried alone."""
        self.timestamp = timestamp
        """When it was added or its last attempt failed. Moves between queues don't change it, so pods of equal
        priority are ordered by their last failed attempts."""
        self.initial_attempt: int | None = None
        """When it first became ready to be tried; the waiting time shown to users starts here."""
        self.attempts = 0
        self.unschedulable_count = 0
        """Attempts that ended in a rejection."""
        self.error_count = 0
        """Errors in a row."""
        self.backoff_expiration: int | None = None
        """Computed on first use; None after each attempt."""
        self.unschedulable_plugins = NO_PLUGINS
        self.is_nominated = False
        """Its last attempt has nominated it, or left it nominated; the watch may not have shown it."""
        self.pending_plugins = NO_PLUGINS
        """Plugins that answered Pending; their events skip the back-off."""
        self.gating_plugin = ""
        self.gating_reasons: tuple[str, ...] = ()
        self.was_flushed = False
        """The flush of the pool has moved it since its last attempt, and no event: a hint may be missing."""
        self.class_key: Hashable | None = None
        """See ``pod_template.py``; None: not computed yet, or the pod is a class of its own."""

    @property
    def profile(self) -> str:
        return self.info.pod.spec.scheduler_name

    @property
    def pending_since(self) -> int:
        """When the pod first became ready to be tried; until then, when it was added. Attempts do not change it."""
        return self.timestamp if self.initial_attempt is None else self.initial_attempt

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins whose events may wake the pod; empty after an error."""
        return self.unschedulable_plugins | self.pending_plugins if self.pending_plugins else self.unschedulable_plugins

    @property
    def is_gated(self) -> bool:
        return self.gating_plugin != ""

    def rejected_by(self, unschedulable: Iterable[str], pending: Iterable[str] = ()) -> None:
        """Replace the rejectors by those of the attempt that has just failed; none at all after an error."""
        self.pending_plugins = frozenset(pending)
        self.unschedulable_plugins = frozenset(unschedulable)

    def class_by(self, key_of: Callable[[PodInfo], Hashable | None]) -> Hashable:
        """The pod's ``class_key``, computed if it is not known. A pod without one is its own class; a UID never equals
        a template's key."""
        if self.class_key is None:
            self.class_key = key_of(self.info) or self.uid
        return self.class_key

    def replace_pod(self, info: PodInfo) -> None:
        """Replaces the pod by a newer version."""
        self.info = info
        self.uid = info.uid
        self.key = info.key
        self.class_key = None

    def __repr__(self) -> str:
        return f"QueuedPod({self.key}, uid={self.uid}, attempts={self.attempts})"
