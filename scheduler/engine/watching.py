"""Applies watch events to the machines in order: what the event ends, then the cache and the queue."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from scheduler.cluster.devices.special_claims import pod_of_special_claim
from scheduler.cluster.object_store import ObjectStore
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.failure import FailureReports
from scheduler.engine.group_reports import GroupReports
from scheduler.engine.internal import AllocationSent, NominationChanged, ObjectLearned, PodBound, RejectWaiting, Step
from scheduler.engine.machine import ReadsPods
from scheduler.engine.making_room.left import Left
from scheduler.engine.making_room.room import MakingRoom
from scheduler.engine.tickets import ClaimTicket
from scheduler.extenders.documents import Documents
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, WriteFinished
from scheduler.objects.budget import PodDisruptionBudget, may_allow_more
from scheduler.objects.kinds import Kind, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod import Pod
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.queue.handlers import EventHandlers


class Watching(Struct, frozen=True):
    """Applies watch events; holds no state."""

    _documents: Documents
    _objects: ObjectStore
    _known_pods: ReadsPods
    _handlers: EventHandlers
    _bindings: BindingCycles
    _room: MakingRoom
    _reports: FailureReports
    _group_reports: GroupReports

    def observed(self, stimulus: ObjectObserved, now: Now) -> Sequence[Step]:
        """A list or a watch shows an object: what the event ends, then the cache and the queue."""
        obj = stimulus.object
        self._documents.put(stimulus.kind, obj, stimulus.document)
        if isinstance(obj, Pod):
            ended = self._ended(obj)
            if obj.metadata.deletion_timestamp is not None:
                ended += self._room.pod_left(obj.metadata.uid, Left.TERMINATING)
            else:
                obj = self._room.as_leaving(obj)
            if ended:
                return [*ended, ObjectLearned(stimulus.kind, obj)]
        elif isinstance(obj, PodDisruptionBudget):
            ready = self._budget_shown(obj)
            return [*self._apply_observed(stimulus.kind, obj, now), *ready]
        return self._apply_observed(stimulus.kind, obj, now)

    def _budget_shown(self, budget: PodDisruptionBudget) -> list[Step]:
        known = self._objects.get(Kind.POD_DISRUPTION_BUDGET, budget.key)
        is_more = isinstance(known, PodDisruptionBudget) and may_allow_more(known, budget)
        return self._room.budget_shown(budget.metadata.namespace, may_allow_more=is_more)

    def _ended(self, pod: Pod) -> list[Step]:
        """Steps for a pod that is bound or finished, or that has replaced another one of its name."""
        uid = pod.metadata.uid
        known = self._known_pods.get(pod.key)
        is_finished = pod.is_finished
        steps: list[Step] = []
        if known is None and not is_finished and not pod.spec.node_name:
            return steps
        if known is not None and known.uid != uid:
            self._reports.forget(known.uid)
            steps += self._room.pod_left(known.uid, Left.GONE)
        if is_finished or pod.spec.node_name:
            self._reports.forget(uid)
        if is_finished:
            steps += self._room.pod_left(uid, Left.FAILED if pod.status.phase == "Failed" else Left.ENDED)
        return steps

    def written(self, outcome: WriteFinished, now: Now) -> Sequence[Step]:
        """A write has ended: the object in its answer is applied before the watch shows it."""
        written = outcome.written
        is_there = written is not None and self._is_there(written)
        steps = self._apply_observed(kind_of(written), written, now) if written is not None and is_there else ()
        self._handlers.claim_writes.answered(outcome, now)
        return steps

    def _is_there(self, written: ApiObject) -> bool:
        """Whether the object in an answer still exists: the watch may have shown its deletion before the answer came,
        and would never take away what came back. One that was made for a pod is new."""
        known = self._objects.get(kind_of(written), written.key)
        if known is not None:
            return known.uid == written.uid
        made_for = pod_of_special_claim(written) if isinstance(written, ResourceClaim) else None
        return made_for is not None and self._known_pods.by_uid(made_for) is not None

    def allocation_sent(self, step: AllocationSent, _now: Now) -> Sequence[Step]:
        """Note that a claim's allocation is on its way to the API server."""
        self._handlers.claim_writes.sent(step.ticket, step.claim_uid)
        return ()

    def nomination_changed(self, step: NominationChanged, now: Now) -> Sequence[Step]:
        """Withdraw a nomination that was cleared, and write the change to the pod's status."""
        if not step.node:
            self._handlers.nomination_withdrawn(step.pod.uid, now)
        return self._reports.nomination_changed(step, now)

    def bound(self, step: PodBound, _now: Now) -> Sequence[Step]:
        """Forget what was said of a pod that is bound, and what it waited for."""
        self._reports.forget(step.uid)
        return self._room.pod_left(step.uid, Left.BOUND)

    def claim_written(self, owner: ClaimTicket, outcome: WriteFinished, now: Now) -> Sequence[Step]:
        """A claim was written outside of a binding: after a failure the pod that waited for it is tried again."""
        if not outcome.is_done and owner.waiting_pod:
            self._handlers.claim_writes.has_not_helped(owner.waiting_pod, now)
        return ()

    def learned(self, step: ObjectLearned, now: Now) -> Sequence[Step]:
        """Apply an object that the answer to a write has shown."""
        return self._apply_observed(step.kind, step.object, now)

    def _apply_observed(self, kind: Kind, obj: ApiObject, now: Now) -> Sequence[Step]:
        aftermath = self._handlers.on_observed(kind, obj, now)
        steps: Sequence[Step] = [RejectWaiting(aftermath.reject_waiting)] if aftermath.reject_waiting else ()
        if aftermath.confirmation is not None and isinstance(obj, Pod):
            return [*steps, *self._bindings.shown(obj.metadata.uid, obj.node_name, now)]
        return steps

    def deleted(self, stimulus: ObjectDeleted, now: Now) -> Sequence[Step]:
        """An object is gone: what its end brings about, then the cache and the queue."""
        obj = stimulus.object
        self._documents.remove(stimulus.kind, obj)
        steps: list[Step] = []
        if stimulus.kind is Kind.POD:
            # First, since a pod may wait for this one as its last victim.
            steps += self._room.pod_left(obj.metadata.uid, Left.GONE)
        aftermath = self._handlers.on_deleted(stimulus.kind, obj, stimulus.is_stale, now)
        if stimulus.kind is Kind.POD:
            self._reports.forget(obj.metadata.uid)
            steps += self._bindings.shown(obj.metadata.uid, "", now)
        elif stimulus.kind in (Kind.POD_GROUP, Kind.COSCHEDULING_POD_GROUP):
            self._group_reports.forget(obj.key)
        elif stimulus.kind is Kind.POD_DISRUPTION_BUDGET:
            steps += self._room.budget_shown(obj.metadata.namespace, may_allow_more=True)
        if aftermath.reject_waiting:
            steps.append(RejectWaiting(aftermath.reject_waiting))
        return steps
