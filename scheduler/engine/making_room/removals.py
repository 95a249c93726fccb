"""Running preemptions: victims are told, then removed, while scheduling goes on (reference preemption.md §7).

    start ──► all victims but the last, side by side ──► the last one ──► over: the preemptor is tried
                            │ one failed                                  as soon as they are gone
                            └──► the last one is spared ────────────────► over: the preemptor is tried

For each victim first the DisruptionTarget condition on its own status (nothing else of it), then its deletion with the
UID as precondition, so that a successor of its name is never hit. A victim that is only assumed is not deleted: its
binding is cancelled and it goes back to the queue. While a removal runs its preemptor is gated; the gate opens as soon
as the last victim is seen to terminate, since its deletion may be the very event that the preemptor waits for.

With strict budgets victims leave by eviction instead: the API server says no where a budget would be broken, and writes
the DisruptionTarget condition itself, together with the deletion, so that a pod that stays never bears it.

In synchronous mode nobody is scheduled while a removal runs, and the gate opens only when it has ended. Other than
kube-scheduler's synchronous mode, which removes all victims side by side within the cycle, the order of the victims is
the same as above.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import msgspec

from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.config.tandem import PDBPolicy, PreemptionMode, PreemptionSettings
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.commands import Command
from scheduler.engine.failure import reference
from scheduler.engine.making_room.awaited_victims import AwaitedVictims
from scheduler.engine.making_room.removal_times import ERROR, SUCCESS, RemovalTimes
from scheduler.engine.making_room.victims import disruption_target, preempted, was_gone
from scheduler.messages.commands import DeletePod, EvictPod, PatchPodStatus
from scheduler.messages.now import Now
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.pod import Pod
from scheduler.objects.timestamps import format_seconds
from scheduler.queue.known_pods import KnownPods
from scheduler.queue.queued_pod import QueuedPod

BUDGET_SECONDS = 30.0
"""After so long the status of a budget counts a victim as gone, also if no change of it was seen."""


@dataclass(slots=True)
class _Removal:
    """One preemptor's victims on their way out."""

    preemptor: PodInfo
    node: str
    victims: tuple[PodInfo, ...]
    last: PodInfo | None
    outstanding: dict[str, PodInfo] = field(default_factory=dict)
    """Victims whose patch or deletion is not answered yet, by UID."""
    is_at_last: bool = False
    has_failed: bool = False
    was_refused: bool = False
    """The API server would not evict a victim."""
    started: float = 0.0


_NOBODY: frozenset[str] = frozenset()


class Removals:
    """All removals under way, by the preemptor's UID.

    ``refused`` hears of a preemptor and node whose victims may not be evicted. ``limit``: how many may run at once.
    """

    def __init__(
        self,
        *,
        known_pods: KnownPods,
        nominator: Nominator,
        bindings: BindingCycles,
        new_ticket: Callable[[], int],
        activate: Callable[[PodInfo, Now], None],
        nominated: Callable[[str, str], None],
        learned: Callable[[Pod, Now], list[Command]],
        refused: Callable[[PodInfo, str, Now], None],
        settings: PreemptionSettings,
        limit: int,
    ) -> None:
        self._known_pods = known_pods
        self._nominator = nominator
        self._bindings = bindings
        self._new_ticket = new_ticket
        self._activate = activate
        self._nominated = nominated
        self._learned = learned
        self._leaving: dict[str, str] = {}
        """UID of each victim whose deletion was granted, until the watch shows that it is gone → when."""
        self._refused = refused
        self._limit = limit
        self._waiting: dict[str, PodInfo] = {}
        """By UID, pods that would preempt if fewer others did."""
        self._uncounted: dict[str, tuple[float, PodInfo]] = {}
        """UID of each victim whose deletion was granted, until the status of the budgets can be expected to tell → when
        (monotonic), in that order."""
        self.configure(settings)
        self._running: dict[str, _Removal] = {}
        self.awaited = AwaitedVictims(nominator.nominated_node)
        self._held: set[str] = set()
        self._last_of: dict[str, set[str]] = {}
        """UID of the last victim that is left → preemptors."""
        self._tickets: dict[int, tuple[str, PodInfo, bool]] = {}
        """Ticket → preemptor UID, victim, and whether the answer is about the deletion (else the condition)."""
        self.times = {SUCCESS: RemovalTimes(), ERROR: RemovalTimes()}
        """How those took that have ended, by result."""

    def configure(self, settings: PreemptionSettings) -> None:
        """From now on these settings hold, also for removals under way."""
        self._is_strict = settings.pdb_policy is PDBPolicy.STRICT
        self._is_synchronous = settings.mode is PreemptionMode.SYNC

    def __len__(self) -> int:
        return len(self._running)

    @property
    def is_full(self) -> bool:
        """Whether no further removal may begin."""
        return len(self._running) >= self._limit

    @property
    def holds_up_scheduling(self) -> bool:
        """Whether a removal must end before another pod is tried."""
        return self._is_synchronous and bool(self._running)

    def knows(self, ticket: int) -> bool:
        return ticket in self._tickets

    def is_clearing(self, node: str) -> bool:
        """Whether pods are being removed from the node, for whomever."""
        return any(removal.node == node for removal in self._running.values())

    def is_removing_for(self, uid: str) -> bool:
        """Whether the preemptor must still be held back."""
        removal = self._running.get(uid)
        if removal is None:
            return False
        if self._is_synchronous or not removal.is_at_last or removal.last is None:
            return True
        victim = self._known_pods.by_uid(removal.last.uid)
        return victim is not None and not victim.is_terminating

    @property
    def held_back(self) -> Collection[str]:
        """UIDs of preemptors for which ``is_removing_for`` holds, for sure: the answer for all of them at once."""
        return self._held

    def concerned_by(self, gone: PodInfo) -> Callable[[QueuedPod], bool] | None:
        """Which waiting pods should hear that this one has left its node; None = all of them."""
        return self.awaited.concerned_by(gone, self._is_strict)

    def victims_in_flight(self) -> tuple[PodInfo, ...]:
        """Victims whose removal is decided, but which the status of the budgets does not count as gone yet."""
        victims = {uid: info for uid, (_, info) in self._uncounted.items()}
        for removal in self._running.values():
            victims |= removal.outstanding
            if removal.last is not None and not removal.is_at_last:
                victims[removal.last.uid] = removal.last
        return tuple(victims.values())

    def budget_seen(self, namespace: str) -> None:
        """The watch shows a budget: its status may have caught up with the victims of its namespace."""
        for uid in [uid for uid, (_, info) in self._uncounted.items() if info.namespace == namespace]:
            del self._uncounted[uid]

    def forget_old(self, now: Now) -> None:
        """Before each attempt: victims that went so long ago count no more."""
        while self._uncounted:
            uid, (since, _) = next(iter(self._uncounted.items()))
            if now.monotonic - since < BUDGET_SECONDS:
                return
            del self._uncounted[uid]

    def wait(self, preemptor: PodInfo) -> None:
        """Try the pod again when a removal has ended: it could not preempt, since too many run."""
        self._waiting[preemptor.uid] = preemptor

    def start(self, preemptor: PodInfo, node: str, victims: tuple[PodInfo, ...], now: Now) -> list[Command]:
        """Remove ``victims`` (most important first) from ``node`` for the sake of ``preemptor``.

        Victims that terminate already are left alone; if no other is left there is nothing to wait for.
        """
        self.awaited.forget(preemptor.uid)
        self.awaited.waits(preemptor.uid)
        commands = self._clear_lower_nominations(preemptor, node)
        alive = [victim for victim in victims if not victim.is_terminating]
        if not alive or preemptor.uid in self._running:
            return commands
        removal = _Removal(preemptor, node, victims, alive[-1], started=now.monotonic)
        self._running[preemptor.uid] = removal
        self._held.add(preemptor.uid)
        first = alive[:-1]
        removal.outstanding = {victim.uid: victim for victim in first}
        for victim in first:
            commands.extend(self._remove(removal, victim, now))
        return commands + self._go_on(removal, now)

    def finished_write(self, outcome: WriteFinished, now: Now) -> list[Command]:
        """A condition or a deletion was answered."""
        entry = self._tickets.pop(outcome.ticket, None)
        if entry is None:
            return []
        uid, victim, was_deletion = entry
        removal = self._running.get(uid)
        if removal is None:
            return []
        is_gone = was_gone(outcome, victim, self._known_pods.get(victim.key))
        if not outcome.is_done and not is_gone:
            removal.has_failed = True
            removal.was_refused |= was_deletion and self._is_strict
            removal.outstanding.pop(victim.uid, None)
            return self._go_on(removal, now)
        if was_deletion or is_gone:
            removal.outstanding.pop(victim.uid, None)
            told = [] if is_gone else [preempted(removal.preemptor, victim, removal.node), *self._granted(victim, now)]
            return [*told, *self._go_on(removal, now)]
        if removal.has_failed or not self._is_wanted(removal):
            removal.outstanding.pop(victim.uid, None)
            return self._go_on(removal, now)
        return [self._delete(removal, victim)]

    # --- what is known before the watch says so -----------------------------------------------------------------------

    def _granted(self, victim: PodInfo, now: Now) -> list[Command]:
        """The API server has taken the deletion: the pod terminates, though the watch is yet to show it."""
        self._uncounted[victim.uid] = now.monotonic, victim
        known = self._known_pods.by_uid(victim.uid)
        if known is None or known.is_terminating:
            return []
        self._leaving[victim.uid] = format_seconds(now.wall)
        self.leaves(victim.uid)
        return self._learned(self.as_leaving(known.pod), now)

    def as_leaving(self, pod: Pod) -> Pod:
        """The pod as the API server has it by now: an event under way may be older than the deletion of a victim."""
        if pod.metadata.deletion_timestamp is not None:
            self.leaves(pod.metadata.uid)
            return pod
        since = self._leaving.get(pod.metadata.uid) if self._leaving else None
        if since is None:
            return pod
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=since))

    def leaves(self, uid: str) -> None:
        """A pod terminates, or is about to be gone: who waits for it as the last one may go on."""
        self._held -= self._last_of.get(uid, _NOBODY)

    def doubt(self, now: Now) -> None:
        """What is known of victims may have changed without a word: nobody counts as held back for sure."""
        self._held.clear()
        for node in self.awaited.take_all():
            self._try_all_nominated_to(node, now)

    def gone(self, uid: str, now: Now) -> None:
        """The watch shows that the pod is gone, or has run to its end."""
        self.leaves(uid)
        self._leaving.pop(uid, None)
        self._waiting.pop(uid, None)
        for node in self.awaited.gone(uid):
            self._try_all_nominated_to(node, now)

    def _is_wanted(self, removal: _Removal) -> bool:
        """The preemptor still waits for its room: no further victim falls for one that is gone or bound."""
        known = self._known_pods.by_uid(removal.preemptor.uid)
        return known is not None and not known.node_name and not known.is_terminating

    # --- one victim ---------------------------------------------------------------------------------------------------

    def _remove(self, removal: _Removal, victim: PodInfo, now: Now) -> list[Command]:
        cancelled = self._bindings.cancel(victim.uid, now)
        if cancelled is not None:
            removal.outstanding.pop(victim.uid, None)
            return [*cancelled, preempted(removal.preemptor, victim, f"{removal.node} (in kube-scheduler memory).")]
        known = self._known_pods.by_uid(victim.uid)
        if known is None or known.is_terminating:
            removal.outstanding.pop(victim.uid, None)
            return []
        if self._is_strict:
            return [EvictPod(self._ticket(removal, victim, True), reference(victim))]
        condition = disruption_target(removal.preemptor, known, now)
        if condition is None:
            return [self._delete(removal, victim)]
        return [PatchPodStatus(self._ticket(removal, victim, False), reference(victim), condition)]

    def _delete(self, removal: _Removal, victim: PodInfo) -> Command:
        return DeletePod(self._ticket(removal, victim, True), reference(victim))

    # --- the whole ----------------------------------------------------------------------------------------------------

    def _go_on(self, removal: _Removal, now: Now) -> list[Command]:
        if removal.outstanding:
            return []
        if removal.is_at_last or removal.has_failed or removal.last is None or not self._is_wanted(removal):
            return self._end(removal, now)
        removal.is_at_last = True
        self._last_of.setdefault(removal.last.uid, set()).add(removal.preemptor.uid)
        if not self.is_removing_for(removal.preemptor.uid):
            self._held.discard(removal.preemptor.uid)
        last = removal.last
        removal.outstanding[last.uid] = last
        commands = self._remove(removal, last, now)
        if not removal.outstanding:
            commands += self._end(removal, now)
        return commands

    def _end(self, removal: _Removal, now: Now) -> list[Command]:
        """However it ended, the preemptor is tried again. kube-scheduler 1.36 does so after a failure only: where the
        last victim was gone already, or was never bound, no event comes that would wake the pod (trap 29)."""
        preemptor = removal.preemptor
        del self._running[preemptor.uid]
        self._held.discard(preemptor.uid)
        if removal.last is not None and removal.last.uid in self._last_of:
            self._last_of[removal.last.uid].discard(preemptor.uid)
            if not self._last_of[removal.last.uid]:
                del self._last_of[removal.last.uid]
        self.times[ERROR if removal.has_failed else SUCCESS].observe(now.monotonic - removal.started)
        if removal.was_refused:
            self._refused(preemptor, removal.node, now)
        left = self._not_gone_yet(removal)
        if left:
            self.awaited.await_end(preemptor.uid, removal.node, left)
        else:
            self._activate(preemptor, now)
            self._try_all_nominated_to(removal.node, now)
        # One for the place that is free; all with the last, since some may have found room in another way meanwhile.
        for uid in list(self._waiting)[: 1 if self._running else None]:
            self._activate(self._waiting.pop(uid), now)
        return []

    def _not_gone_yet(self, removal: _Removal) -> list[str]:
        """UIDs of the victims that are on their way out, and whose end is worth waiting for: none where some stay. A
        victim whose binding was cancelled has gone back to the queue."""
        if removal.has_failed or not removal.is_at_last:
            return []
        known = (self._known_pods.by_uid(victim.uid) for victim in removal.victims)
        return [info.uid for info in known if info is not None and info.node_name]

    def _try_all_nominated_to(self, node: str, now: Now) -> None:
        """Others may have waited for the same victims, and none of them must do so for ever."""
        for preemptor in self._nominator.pods_for_node(node):
            self._activate(preemptor, now)

    def _clear_lower_nominations(self, preemptor: PodInfo, node: str) -> list[Command]:
        """Less important pods that counted on this node must look again."""
        commands: list[Command] = []
        for other in self._nominator.pods_for_node(node):
            if other.priority < preemptor.priority and not self._nominator.is_foreign(other.uid):
                self._nominated(other.uid, "")
                commands.append(PatchPodStatus(0, reference(other), nominated_node_name=""))
        return commands

    def _ticket(self, removal: _Removal, victim: PodInfo, is_deletion: bool) -> int:
        ticket = self._new_ticket()
        self._tickets[ticket] = (removal.preemptor.uid, victim, is_deletion)
        return ticket
