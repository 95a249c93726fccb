"""Writes of claims for devices, and the pods that wait for what becomes of them.

What a claim was to get is taken from the decision on. If the claim never gets it, no watch shows that it is free.
"""

from __future__ import annotations

from scheduler.cluster.cache import ClusterCache
from scheduler.framework.events import UNSCHEDULABLE_TIMEOUT
from scheduler.messages.now import Now
from scheduler.queue.cluster_events import CLAIM_UPDATE
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.queue.waking import OnlyIf


class ClaimWrites:
    """A part of ``EventHandlers``."""

    def __init__(self, cache: ClusterCache, queue: SchedulingQueue) -> None:
        self._devices = cache.devices
        self._queue = queue

    def sent(self, ticket: int, claim_uid: str) -> None:
        """Note that the allocation of a claim in flight has been sent to the API server."""
        self._devices.write_sent(ticket, claim_uid)

    def answered(self, ticket: int, now: Now) -> None:
        """Note that a write of any kind has been answered; what it wrote has been observed."""
        if self._queue.waking.unfinished:
            self._queue.finish_waking()
        self._devices.write_finished(ticket)
        self.announce_devices(now)

    def has_not_helped(self, pod_uid: str, now: Now) -> None:
        """A write that was to let a waiting pod be placed has failed: try the pod again after its back-off.

        kube-scheduler 1.36 waits for the write, and tries the pod again as after any error.
        """
        self._queue.move_all(UNSCHEDULABLE_TIMEOUT, None, None, now, OnlyIf(lambda record: record.uid == pod_uid))

    def announce_devices(self, now: Now, *, but: str = "") -> None:
        """Wake pods for devices that claims were to get and have not got. ``but``: the UID of a pod that gave them up
        itself, and is not woken by that."""
        for claim in self._devices.take_given_up():
            others = OnlyIf(lambda record: record.uid != but) if but else None
            self._queue.move_all(CLAIM_UPDATE, *claim.given_up(), now, others)

    def keep_quiet(self) -> None:
        """Say nothing of devices that were set aside and given up within one step: no other pod has missed them."""
        self._devices.take_given_up()
