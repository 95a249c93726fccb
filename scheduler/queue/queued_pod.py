"""The record that the queue keeps of a pod from its first sight until it is bound (reference queue.md §1.1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from scheduler.cluster.pod_info import PodInfo

NOBODY: frozenset[str] = frozenset()


class QueuedPod:
    """One pod and what became of it so far. Times are queue time, nanoseconds (``clock.py``).

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
        "info",
        "initial_attempt",
        "pending_plugins",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, info: PodInfo, timestamp: int) -> None:
        self.info = info
        self.timestamp = timestamp
        """When it was added or its last attempt failed; moves between queues leave it alone, so that among pods of one
        priority the order is that of the last failed attempts."""
        self.initial_attempt: int | None = None
        """When it first was ready to be tried: what the waiting time that users see is measured from."""
        self.attempts = 0
        self.unschedulable_count = 0
        """Attempts that ended in a rejection."""
        self.error_count = 0
        """Errors in a row."""
        self.backoff_expiration: int | None = None
        """Worked out at first need; None after each attempt."""
        self.unschedulable_plugins = NOBODY
        self.pending_plugins = NOBODY
        """Those that asked the pod to wait for something outside: their word skips the back-off."""
        self.gating_plugin = ""
        self.gating_reasons: tuple[str, ...] = ()
        self.was_flushed = False
        """No event has moved it since its last attempt, only the flush of the pool: a hint may be missing."""
        self.class_key: Hashable | None = None
        """See ``pod_template.py``; None: not worked out, or the pod is a class of its own."""

    @property
    def uid(self) -> str:
        return self.info.uid

    @property
    def key(self) -> str:
        return self.info.key

    @property
    def profile(self) -> str:
        return self.info.pod.spec.scheduler_name

    @property
    def rejectors(self) -> frozenset[str]:
        """Every plugin whose events may wake the pod; empty after an error."""
        return self.unschedulable_plugins | self.pending_plugins if self.pending_plugins else self.unschedulable_plugins

    @property
    def is_gated(self) -> bool:
        return self.gating_plugin != ""

    def rejected_by(self, unschedulable: Iterable[str], pending: Iterable[str] = ()) -> None:
        """Replace the rejectors by those of the attempt that has just failed; none at all after an error."""
        self.pending_plugins = frozenset(pending)
        self.unschedulable_plugins = frozenset(unschedulable)

    def replace_pod(self, info: PodInfo) -> None:
        """A newer version of the pod."""
        self.info = info
        self.class_key = None

    def __repr__(self) -> str:
        return f"QueuedPod({self.key}, uid={self.uid}, attempts={self.attempts})"
