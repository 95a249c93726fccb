"""Making room for pods: victims get a condition, then leave, while scheduling goes on.

The states of a removal and their changes are the table of ``removal.py``. For each victim first the DisruptionTarget
condition on its own status (nothing else of it), then its deletion with the UID as precondition, so that a successor of
its name is never hit. A victim that is only assumed is not deleted: its binding is cancelled and it goes back to the
queue. While a removal runs its preemptor is gated; the gate opens as soon as the last victim is seen to terminate,
since its deletion may be the very event that the preemptor waits for.

With strict budgets victims leave by eviction instead: the API server says no where a budget would be broken, and writes
the DisruptionTarget condition itself, together with the deletion, so that a pod that stays never bears it.

What happens to the machine, each a method that returns steps:

| verb | when |
|---|---|
| ``decided`` | an attempt has ended: its victims are to go, or its pod waits for others' |
| ``answered`` | the API server has answered a write about a victim |
| ``pod_left`` | a pod has begun to terminate, is bound, has ended or is gone, as a preemptor or a victim |
| ``due`` | what the machine has put off is due: a deadline, or a removal whose last step has been applied |

It is also informed of budgets (``budget_shown``: they may count victims as gone by now), of watches that may have
missed events (``doubt``), and of new settings (``configure``). Everything else is a question.

Source: docs/kube-scheduler/preemption.md §7. In synchronous mode no pod is tried while a removal runs, and the gate
opens only when it has ended. Other than kube-scheduler's synchronous mode, which removes all victims side by side
within the cycle, the order of the victims is the same as above.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.config.tandem import PDBPolicy, PreemptionMode, PreemptionSettings
from scheduler.engine.deadlines import Deadlines, NominationDeadline, RoundEnd, SuspensionEnd
from scheduler.engine.failure import reference
from scheduler.engine.internal import NominationChanged, ObjectLearned, PodsReady, Step, VictimSettled
from scheduler.engine.machine import Claims, Part, ReadsBindings, ReadsCache, ReadsNominations, ReadsPods
from scheduler.engine.making_room.awaited_victims import AwaitedVictims, ConcernedByVictim
from scheduler.engine.making_room.granted import GrantedDeletions
from scheduler.engine.making_room.left import Left
from scheduler.engine.making_room.policies import PreemptionPolicies, Standing
from scheduler.engine.making_room.preemptor import Preemptor
from scheduler.engine.making_room.put_off import PutOffPods
from scheduler.engine.making_room.removal import Removal, RemovalState
from scheduler.engine.making_room.removal_times import ERROR, SUCCESS, RemovalTimes
from scheduler.engine.making_room.unseen import room_of
from scheduler.engine.making_room.victim_writes import VictimWrites
from scheduler.engine.making_room.victims import EVICTION, disruption_target, preempted, was_gone
from scheduler.engine.outcome import CycleOutcome, Placed
from scheduler.engine.tickets import ClaimTicket, Tickets, VictimTicket
from scheduler.framework.post_filter import NominationMode, Remove, WaitForVictims
from scheduler.framework.preemption_policy import PreemptionPolicy
from scheduler.messages.now import Now
from scheduler.messages.stimuli import PodsActivated, WriteFinished
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod

_NO_UIDS: frozenset[str] = frozenset()


class RoomReads(Struct, frozen=True):
    """The state that making room reads."""

    cache: ReadsCache
    known_pods: ReadsPods
    nominator: ReadsNominations
    bindings: ReadsBindings


class MakingRoom:
    """All removals under way, by the preemptor's UID, and the results of earlier ones.

    ``limit``: how many removals may run at once. ``own``: the scheduler names of our profiles.
    """

    CLAIMS = Claims(
        writes=frozenset({Part.ROOM}),
        reads=frozenset({Part.CACHE, Part.KNOWN_PODS, Part.NOMINATOR, Part.BINDINGS}),
        tickets=frozenset({VictimTicket}),
        deadlines=frozenset({NominationDeadline, SuspensionEnd, RoundEnd}),
    )

    def __init__(
        self,
        reads: RoomReads,
        tickets: Tickets,
        deadlines: Deadlines,
        settings: PreemptionSettings,
        own: Collection[str],
        limit: int,
    ) -> None:
        self._cache = reads.cache
        self._known_pods = reads.known_pods
        self._nominator = reads.nominator
        self._tickets = tickets
        self._writes = VictimWrites(reads.known_pods, reads.bindings, tickets)
        self._limit = limit
        self._running: dict[str, Removal] = {}
        self._awaited = AwaitedVictims(reads.nominator)
        self.granted = GrantedDeletions()
        self._policies = PreemptionPolicies(settings, own, deadlines, reads.nominator)
        self._put_off = PutOffPods()
        self._held: set[str] = set()
        self._last_of: dict[str, set[str]] = {}
        """UID of the last victim that is left → preemptors."""
        self.times = {SUCCESS: RemovalTimes(), ERROR: RemovalTimes()}
        """Durations of completed removals, by result."""
        self.configure(settings, own)

    # --- what others ask ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._running)

    @property
    def suspensions(self) -> dict[str, int]:
        """How often a node was left out for a preemptor, by reason; for metrics."""
        return self._policies.suspensions

    @property
    def leaving(self) -> int:
        """The number of victims known to terminate, or to be gone, before the watch has shown it."""
        return len(self.granted)

    @property
    def holds_up_scheduling(self) -> bool:
        """Whether a removal must end before another pod is tried."""
        return self._is_synchronous and bool(self._running)

    def policy_of(self, pod: PodInfo, now: Now) -> PreemptionPolicy:
        """The preemption policy of an attempt that is made now."""
        nominated = pod.pod.nominated_node_name
        is_being_cleared = bool(nominated) and any(nominated in one.preemptor.nodes for one in self._running.values())
        return self._policies.policy_of(pod, self._standing(now, is_being_cleared))

    def leaves_out_nodes(self, pod: PodInfo) -> bool:
        """Whether an attempt that is made now has ``excluded_nodes``."""
        return bool(self._policies.excluded_nodes(pod))

    def policy_of_group(self, uid: str, pods: Sequence[PodInfo], now: Now) -> PreemptionPolicy:
        """The preemption policy of a group (UID of its object) that makes room as one for these pods."""
        return self._policies.policy_of_group(uid, pods, self._standing(now, False))

    def _standing(self, now: Now, is_being_cleared: bool) -> Standing:
        has_budgets = bool(self._cache.objects.all(Kind.POD_DISRUPTION_BUDGET))
        return Standing(
            victims_in_flight=self.victims_in_flight(now) if has_budgets else (),
            is_nominated_node_being_cleared=is_being_cleared,
            is_full=len(self._running) >= self._limit,
        )

    def is_removing_for(self, uid: str) -> bool:
        """Whether the preemptor is gated: a removal for it is still running."""
        removal = self._running.get(uid)
        if removal is None:
            return False
        if self._is_synchronous or not removal.is_at_last:
            return True
        victim = self._known_pods.by_uid(removal.last.uid)
        return victim is not None and not victim.is_terminating

    @property
    def held_back(self) -> Collection[str]:
        """UIDs of preemptors for which ``is_removing_for`` certainly holds: one answer for all of them."""
        return self._held

    def concerned_by(self, gone: PodInfo) -> ConcernedByVictim | None:
        """The pending pods to notify that this one has left its node; None = all of them."""
        return self._awaited.concerned_by(gone, self._writes.is_strict)

    def as_leaving(self, pod: Pod) -> Pod:
        """The pod as the API server has it: a granted deletion is known before the watch shows it."""
        return self.granted.as_leaving(pod)

    def victims_in_flight(self, now: Now) -> tuple[PodInfo, ...]:
        """Victims whose removal is decided, but which the budgets' status does not count as gone yet."""
        self.granted.forget_old(now)
        victims = self.granted.uncounted
        for removal in self._running.values():
            victims |= removal.outstanding
            if not removal.is_at_last:
                victims[removal.last.uid] = removal.last
        return tuple([victim for uid, victim in victims.items() if uid not in self.granted.counted])

    # --- the four verbs -----------------------------------------------------------------------------------------------

    def decided(self, pod: PodInfo, outcome: CycleOutcome, now: Now) -> list[Step]:
        """An attempt has ended. Starts the removal of its victims if the pod is still pending."""
        self._awaited.waits_no_more(pod.uid)
        room = None if isinstance(outcome, Placed) else outcome.room
        if isinstance(outcome, Placed) or not self._is_pending(pod):
            self._put_off.gone(pod.uid)
            return []
        self._put_off.decided(pod, room)
        self._policies.attempt_failed(pod, outcome.nomination, now)
        steps: list[Step] = [write.with_ticket(self._tickets.issue(ClaimTicket(pod.uid))) for write in outcome.writes]
        if isinstance(room, Remove) and outcome.nomination.mode is NominationMode.SET:
            return [*steps, *self._start(Preemptor.of(pod, room), pod, room, now)]
        if isinstance(room, WaitForVictims):
            self._awaited.waits(pod.uid)
        return steps

    def answered(self, owner: VictimTicket, outcome: WriteFinished, now: Now) -> list[Step]:
        """Apply the answer to a condition, deletion or eviction of a victim."""
        removal, victim = self._running.get(owner.preemptor_uid), owner.victim
        if removal is None:
            return []
        is_gone = was_gone(outcome, victim, self._known_pods.get(victim.key))
        settled = VictimSettled(removal.preemptor.uid, victim.uid)
        if is_gone:
            return [settled]
        if not outcome.is_done:
            removal.has_failed = True
            if owner.is_deletion and self._writes.is_strict:
                removal.refused_on[victim.node_name] = None
            return [settled]
        if owner.is_deletion:
            return [preempted(removal.preemptor, victim), *self._grant(removal, victim, now), settled]
        if removal.has_failed or not self._is_wanted(removal):
            return [settled]
        return [self._writes.deletion(removal, victim)]

    def pod_left(self, uid: str, how: Left) -> list[Step]:
        """A pod terminates, is bound, has ended, or is gone, as a preemptor or a victim."""
        if self._running and how is not Left.BOUND:
            self._shown_leaving(uid)
        if how is Left.TERMINATING:
            self._leaves(uid)
            return []
        if how is Left.BOUND:
            self._policies.placed(uid)
            return []
        if how is Left.FAILED:
            self._policies.ended_in_failure(uid)
        elif how is Left.GONE:
            self._policies.gone(uid)
        self._leaves(uid)
        self.granted.gone(uid)
        self._put_off.gone(uid)
        freed = room_of(uid, self._nominator, self._known_pods)
        return [*freed, *self._try_all_nominated_to(self._awaited.gone(uid), but=uid)]

    def due(self, what: NominationDeadline | SuspensionEnd | RoundEnd | VictimSettled, now: Now) -> list[Step]:
        """Apply an expired deadline (a preemption's time is over, or a node may be tried again), or go on with a
        removal once the effect of a victim's removal on the cluster has been applied."""
        if not isinstance(what, VictimSettled):
            return self._policies.due(what, now)
        removal = self._running.get(what.preemptor_uid)
        if removal is None:
            return []
        removal.outstanding.pop(what.victim_uid, None)
        self.granted.settled(what.victim_uid)
        return self._go_on(removal, now)

    # --- what it is informed of ---------------------------------------------------------------------------------------

    def budget_shown(self, namespace: str, *, may_allow_more: bool) -> list[Step]:
        """The watch shows a budget of this namespace, or its end: it may count its victims as gone by now."""
        self.granted.budget_shown(namespace)
        return [*self._put_off.budget_allows_more()] if may_allow_more else []

    def doubt(self) -> list[Step]:
        """Watch events may have been missed: the state of victims is uncertain, and no pod counts as certainly
        gated."""
        self._held.clear()
        return self._try_all_nominated_to(self._awaited.take_all())

    def configure(self, settings: PreemptionSettings, own: Collection[str]) -> None:
        """Replace the settings, also for removals under way; the memory of past preemptions stays."""
        self._writes.is_strict = settings.pdb_policy is PDBPolicy.STRICT
        self._is_synchronous = settings.mode is PreemptionMode.SYNC
        self._policies.configure(settings, own)

    # --- one removal --------------------------------------------------------------------------------------------------

    def _start(self, preemptor: Preemptor, tried: PodInfo, room: Remove, now: Now) -> list[Step]:
        """Start a removal, for the attempt at ``tried``. Victims that already terminate need no write; without others
        there is nothing to wait for. While an earlier removal for the same preemptor runs, none is started."""
        self._awaited.forget(preemptor.uid)
        running = self._running.get(preemptor.uid)
        steps = self._policies.started(tried, room, now) if running is None else []
        alive = [victim for victim in room.victims if not victim.is_terminating]
        if alive or self._is_synchronous:
            steps += [NominationChanged(reference(other), "") for other in preemptor.outranked(self._nominator)]
        if not alive or running is not None:
            if running is not None:
                running.is_overtaken = bool(alive)
            for pod in preemptor.pods:
                self._awaited.waits(pod.uid)
            return steps
        for pod in preemptor.pods:
            self._awaited.waits_for_all(pod.uid)
        removal = Removal(preemptor, room.victims, alive[-1], now.monotonic)
        self._running[preemptor.uid] = removal
        self._held.add(preemptor.uid)
        first = alive[:-1]
        removal.outstanding = {victim.uid: victim for victim in first}
        for victim in first:
            steps += self._writes.first(removal, victim, now)
        return steps if first else [*steps, *self._go_on(removal, now)]

    def _grant(self, removal: Removal, victim: PodInfo, now: Now) -> list[Step]:
        """The API server has accepted the deletion: the pod terminates as a victim, before the watch shows either."""
        self.granted.grant(victim, self._cache.objects.all(Kind.POD_DISRUPTION_BUDGET), now)
        known = self._known_pods.by_uid(victim.uid)
        if known is None or known.is_terminating:
            return []
        condition = EVICTION if self._writes.is_strict else disruption_target(removal.preemptor, known, now)
        self.granted.leaves(victim.uid, condition, now)
        self._leaves(victim.uid)
        return [ObjectLearned(Kind.POD, self.granted.as_leaving(known.pod))]

    def _go_on(self, removal: Removal, now: Now) -> list[Step]:
        """Remove the last victim after the others, then end the removal."""
        if removal.outstanding:
            return []
        if removal.is_at_last or removal.has_failed or not self._is_wanted(removal):
            return self._end(removal, now)
        removal.become(RemovalState.LAST_VICTIM)
        last = removal.last
        self._last_of.setdefault(last.uid, set()).add(removal.preemptor.uid)
        if not self.is_removing_for(removal.preemptor.uid):
            self._held.discard(removal.preemptor.uid)
        removal.outstanding[last.uid] = last
        return self._writes.first(removal, last, now)

    def _end(self, removal: Removal, now: Now) -> list[Step]:
        """End the removal and try the preemptor again; after a failure at once, regardless of its back-off.

        kube-scheduler 1.36 does so after a failure only: where the last victim was gone already, or was never bound, no
        event comes that would wake the pod (trap 29).
        """
        preemptor, last = removal.preemptor, removal.last.uid
        del self._running[preemptor.uid]
        self._held.discard(preemptor.uid)
        if last in self._last_of:
            self._last_of[last].discard(preemptor.uid)
            if not self._last_of[last]:
                del self._last_of[last]
        self.times[ERROR if removal.has_failed else SUCCESS].observe(now.monotonic - removal.started)
        if removal.refused_on:
            self._policies.refused(preemptor.pods, removal.refused_on, now)
        steps: list[Step] = []
        left = self._not_gone_yet(removal)
        if left:
            self._awaited.await_end(removal, left)
        else:
            removal.become(RemovalState.OVER)
            again = PodsActivated if removal.has_failed else PodsReady
            steps += [again(preemptor.keys), *self._try_all_nominated_to(preemptor.nodes)]
        ready = self._put_off.removal_ended(is_last=not self._running, has_failed=removal.has_failed)
        return [*steps, *ready]

    def _not_gone_yet(self, removal: Removal) -> list[str]:
        """UIDs of the victims whose termination the preemptor awaits; empty if some victims stay, as where no pod waits
        for the room any more, or it has chosen others. A victim whose binding was cancelled has gone back to the queue.
        """
        stays = removal.has_failed or not removal.is_at_last or not self._is_wanted(removal)
        if stays or removal.is_overtaken:
            return []
        known = (self._known_pods.by_uid(victim.uid) for victim in removal.victims)
        return [info.uid for info in known if info is not None and info.node_name]

    # --- small parts --------------------------------------------------------------------------------------------------

    def _is_pending(self, pod: PodInfo) -> bool:
        """Whether the pod exists and is pending: no victim is removed for one that is gone or bound."""
        known = self._known_pods.by_uid(pod.uid)
        return known is not None and not known.node_name and not known.is_terminating

    def _is_wanted(self, removal: Removal) -> bool:
        """Whether a pod still waits for the room."""
        return any(self._is_pending(pod) for pod in removal.preemptor.pods)

    def _shown_leaving(self, uid: str) -> None:
        """The watch may be ahead of the answer about a victim; the next status of a budget counts it, then."""
        if self._cache.objects.all(Kind.POD_DISRUPTION_BUDGET):
            for removal in self._running.values():
                if (victim := removal.outstanding.get(uid)) is not None:
                    self.granted.shown_leaving(victim)

    def _leaves(self, uid: str) -> None:
        """A pod terminates or is about to be gone: ends the wait of preemptors whose last victim it is."""
        self._held -= self._last_of.get(uid, _NO_UIDS)

    def _try_all_nominated_to(self, nodes: Iterable[str], but: str = "") -> list[Step]:
        """Try all pods nominated to these nodes: they may have waited for the same victims."""
        keys = [pod.key for node in nodes for pod in self._nominator.pods_for_node(node) if pod.uid != but]
        return [PodsReady(tuple(keys))] if keys else []
