"""The places of waiting pods: the active queue, the back-off queues and the pool, with the gates before them."""

from __future__ import annotations

from scheduler.framework.events import FORCE_ACTIVATE
from scheduler.messages.status import Code
from scheduler.queue.active import ActiveQueue
from scheduler.queue.backoff import BackoffQueues
from scheduler.queue.flushes import Flushes
from scheduler.queue.hints import Strategy
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.pool import UnschedulablePool
from scheduler.queue.queue_settings import PreEnqueue
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.story import Place


class Places:
    """Moves pods, by ``namespace/name``, between places, so that each is in one. Queue time in nanoseconds."""

    __slots__ = ("_facts", "_flushes", "_heaped", "_last_ready", "active", "backoff", "held", "pool", "pre_enqueue")

    def __init__(
        self,
        active: ActiveQueue,
        backoff: BackoffQueues,
        pool: UnschedulablePool,
        flushes: Flushes,
        pre_enqueue: PreEnqueue,
        facts: QueueMetrics,
    ) -> None:
        self.active = active
        self.backoff = backoff
        self.pool = pool
        self.pre_enqueue = pre_enqueue
        self._flushes = flushes
        self._facts = facts
        self._heaped = [heap.live for heap in (*active.heaps, backoff.rejected, backoff.errors)]
        self.held: dict[QueuedPod, bool] = {}
        """Pods of which a gate is to be reported, and whether it was an error; for ``take_held``."""
        self._last_ready = -1

    # --- in -----------------------------------------------------------------------------------------------------------

    def put(
        self, record: QueuedPod, strategy: Strategy, label: str, time: int, *, is_new_to_pool: bool = True
    ) -> Place:
        """Places a pod that is in no queue. The gates decide whether it may enter active or back-off."""
        if strategy is not Strategy.SKIP and self._passes_gates(record):
            if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_backing_off(record, time):
                self.backoff.add(record)
                self._facts.incoming["backoff", label] += 1
                return Place.BACKOFF if record.rejectors else Place.ERROR_BACKOFF
            self.make_active(record, label, time)
            return Place.ACTIVE
        self._pool(record, time)
        if is_new_to_pool:
            self._facts.incoming["unschedulable", label] += 1
        return Place.GATED if record.is_gated else Place.UNSCHEDULABLE

    def replace_gates(self, pre_enqueue: PreEnqueue, time: int) -> None:
        """Other gates from now on: those also hold pods that are in active or back-off, as after a restart."""
        self.pre_enqueue = pre_enqueue
        waiting = [entry.record for entries in self._heaped for entry in entries.values()]
        for record in filter(None, waiting):
            if not self._passes_gates(record):
                self.take_out(record)
                self._pool(record, time)

    def _pool(self, record: QueuedPod, time: int) -> None:
        if not len(self.pool):
            self._flushes.done(time)
        self.pool.put(record)

    def make_active(self, record: QueuedPod, label: str, time: int) -> None:
        self.note_ready(record, time)
        self.active.put(record)
        self._facts.incoming["active", label] += 1

    def note_ready(self, record: QueuedPod, time: int) -> None:
        """The pod is ready to be tried, now or since earlier.

        Pods that one stimulus makes ready get times a nanosecond apart, in the order in which they became so: of a gang
        the pod that completed the quorum is tried before those that waited for it, as in kube-scheduler, which reads
        the clock for each (docs/kube-scheduler/podgroups.md §5).
        """
        if record.initial_attempt is None:
            record.initial_attempt = self._last_ready = max(time, self._last_ready + 1)

    def _passes_gates(self, record: QueuedPod) -> bool:
        refusal = self.pre_enqueue(record)
        if refusal is None:
            record.gating_plugin = ""
            record.gating_reasons = ()
            return True
        if refusal.plugin not in record.rejectors:
            self._facts.rejected(frozenset((refusal.plugin,)), record.profile, 1)
        record.unschedulable_plugins |= {refusal.plugin}
        record.gating_plugin = refusal.plugin
        record.gating_reasons = refusal.reasons
        if refusal.code is Code.ERROR or record.group:
            self.held[record] = refusal.code is Code.ERROR
        return False

    def take_held(self) -> tuple[tuple[QueuedPod, bool], ...]:
        """The pods that have been gated by an error, and those of groups that have been gated, since the last call, and
        still are; with each whether it was an error."""
        held = [(one, error) for one, error in self.held.items() if one.is_gated and self.pool.get(one.key) is one]
        self.held.clear()
        return tuple(held)

    # --- out ----------------------------------------------------------------------------------------------------------

    def take_out(self, record: QueuedPod) -> None:
        key = record.key
        if self.active.remove(key) is None and self.backoff.remove(key) is None:
            self.pool.remove(key)

    def take_for_attempt(self, key: str) -> QueuedPod | None:
        """Removes and returns a pod wherever it waits, whatever its back-off; None where a gate keeps it, or there is
        none."""
        record = self.active.remove(key)
        if record is not None:
            return record
        record = self.backoff.remove(key)
        if record is None and (record := self.pool.remove(key)) is not None and not self._passes_gates(record):
            self.pool.put(record)
            return None
        if record is not None:
            self._facts.incoming["active", FORCE_ACTIVATE.label] += 1
        return record

    # --- questions ----------------------------------------------------------------------------------------------------

    def lookup(self, key: str) -> QueuedPod | None:
        for entries in self._heaped:
            entry = entries.get(key) if entries else None
            if entry is not None:
                return entry.record
        return self.pool.get(key)

    def place_of(self, record: QueuedPod) -> Place:
        key = record.key
        if key in self.active:
            return Place.ACTIVE
        if key in self.backoff.rejected:
            return Place.BACKOFF
        if key in self.backoff.errors:
            return Place.ERROR_BACKOFF
        return Place.GATED if record.is_gated else Place.UNSCHEDULABLE
