"""Writes of claims for devices, and the pods that wait for what becomes of them.

What a claim was to get is taken from the decision on. If the claim never gets it, no watch shows that it is free.
"""

from __future__ import annotations

from scheduler.cluster.cache import ClusterCache
from scheduler.framework.events import UNSCHEDULABLE_TIMEOUT
from scheduler.messages.now import Now
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.queue.cluster_events import CLAIM_UPDATE
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.queue.waking import OnlyIf


class ClaimWrites:
    """The part of ``EventHandlers`` that handles writes of claims."""

    def __init__(self, cache: ClusterCache, queue: SchedulingQueue) -> None:
        self._devices = cache.devices
        self._queue = queue

    def sent(self, ticket: int, claim_uid: str) -> None:
        """Note that the allocation of a claim in flight has been sent to the API server."""
        self._devices.write_sent(ticket, claim_uid)

    def answered(self, outcome: WriteFinished, now: Now) -> None:
        """Note that a write of any kind has been answered; what it wrote has been observed.

        One without an answer, or with an error of the server, may have been done all the same. Unless the claim was
        looked up, only its own pods are woken: others could be given devices that the claim has got after all.
        """
        if self._queue.waking.unfinished:
            self._queue.finish_waking()
        self._devices.write_finished(outcome.ticket, is_certain=_is_certain(outcome))
        self.announce_devices(now)

    def has_not_helped(self, pod_uid: str, now: Now) -> None:
        """A write that was to let a waiting pod be placed has failed: try the pod again after its back-off.

        kube-scheduler 1.36 waits for the write, and tries the pod again as after any error.
        """
        self._queue.move_all(UNSCHEDULABLE_TIMEOUT, None, None, now, OnlyIf(lambda record: record.uid == pod_uid))

    def announce_devices(self, now: Now, *, but: str = "") -> None:
        """Wake pods for devices that claims were to get and have not got. ``but``: the UID of a pod that gave them up
        itself, and is not woken by that."""
        for given_up in self._devices.take_given_up():
            others = OnlyIf(lambda record: record.uid != but) if but else None
            self._queue.move_all(CLAIM_UPDATE, given_up.before, given_up.claim, now, others)

    def keep_quiet(self) -> None:
        """Say nothing of devices that were set aside and given up within one step: no other pod has missed them."""
        self._devices.take_given_up()


def _is_certain(outcome: WriteFinished) -> bool:
    """Whether the claim has got its devices or will not get them by this write. One with devices that is shown by a
    failure is not: it may be of a pod that is gone, and then does not count before the watch shows it."""
    if outcome.is_done or not isinstance(outcome.written, ResourceClaim):
        return outcome.is_done or 400 <= outcome.status < 500
    return outcome.written.allocation is None
