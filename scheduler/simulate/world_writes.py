"""The writes of a world's scheduler: what becomes of each, and what the writer answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from random import Random

import msgspec

from scheduler.engine.commands import Command
from scheduler.errors import InvariantViolation
from scheduler.messages.claim_commands import ClaimCommand
from scheduler.messages.commands import BindPod, DeletePod, EvictPod, PatchGroupStatus, PatchPodStatus, UpdateObject
from scheduler.messages.stimuli import Stimulus, WriteFinished
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import Condition
from scheduler.simulate.world_devices import ClaimWrites
from scheduler.simulate.world_facts import Document, Facts, Refused
from scheduler.simulate.world_kubelets import Kubelets
from scheduler.simulate.world_timeline import Timeline, note
from scheduler.simulate.world_trouble import NO_ANSWER, REFUSALS, WriteFate, outcome_of


class Writes:
    """``life``: the number of engines before this one; writes of an earlier one, and answers to it, are lost."""

    def __init__(self, facts: Facts, timeline: Timeline, kubelets: Kubelets, feed: Callable[[Stimulus], None]) -> None:
        self.life = 0
        self._facts = facts
        self._timeline = timeline
        self._kubelets = kubelets
        self._feed = feed
        self._claims = ClaimWrites(facts)
        self._confirmed: OrderedDict[str, str] = OrderedDict()
        """Bindings that the engine knows to be done: UID → node."""

    def restart(self) -> None:
        self.life += 1
        self._confirmed.clear()

    def answer(self, stimulus: Stimulus, life: int) -> None:
        """Answer this engine; an earlier engine's answers are dropped."""
        if life == self.life:
            self._feed(stimulus)

    def send(self, command: Command) -> None:
        """Send a write: it arrives, is done or not, and is answered or not."""
        if isinstance(command, BindPod) and command.pod.uid in self._confirmed:
            raise InvariantViolation(f"pod {command.pod.key} is bound again, to {command.node}")
        subject = f"{type(command).__name__} {_subject_of(command)}"
        chance = self._timeline.chance(subject)
        fate = self._fate_of(command, chance)
        refusal = REFUSALS[chance.randrange(len(REFUSALS))]
        late_seconds = chance.uniform(*self._timeline.trouble.late_seconds)
        life = self.life

        def arrive() -> None:
            if self.life != life:
                return
            if fate is WriteFate.REFUSED:
                self._finish(command, refusal, life)
            elif fate is WriteFate.ANSWERED:
                self._finish(command, self._do(command), life)
            else:
                if fate is WriteFate.UNHEARD:
                    self._do(command)
                reported = self._timeline.monotonic + self._timeline.trouble.timeout_seconds
                self._timeline.at(reported, lambda: self._finish(command, NO_ANSWER, life))
                if fate is WriteFate.LATE:
                    self._timeline.at(reported + late_seconds, do_late)

        def do_late() -> None:
            if self.life == life:
                self._do(command)

        self._timeline.later(self._timeline.trouble.write_seconds, subject, arrive)

    def _fate_of(self, command: Command, chance: Random) -> WriteFate:
        drawn = chance.random()
        if drawn < self._timeline.trouble.refused:
            return WriteFate.REFUSED
        if drawn >= self._timeline.trouble.refused + self._timeline.trouble.unanswered:
            return WriteFate.ANSWERED
        possible = (WriteFate.LOST, WriteFate.UNHEARD, WriteFate.LATE)
        return possible[chance.randrange(3 if isinstance(command, BindPod) else 2)]

    def _finish(self, command: Command, refused: Refused | None, life: int) -> None:
        """Report a write's outcome as the writer does: after a conflict or a server error it checks whether the pod has
        the requested node, by an earlier request."""
        if isinstance(command, BindPod):
            if refused is not None and refused is not NO_ANSWER and self._is_bound_as(command):
                refused = None
            if refused is None and self.life == life:
                note(self._confirmed, command.pod.uid, command.node)
            self.answer(self.bind_outcome(command, refused), life)
        elif isinstance(command, ClaimCommand) and command.ticket:
            self.answer(self._claims.outcome_of(command, refused), life)
        elif isinstance(command, PatchPodStatus | DeletePod | EvictPod | UpdateObject) and command.ticket:
            self.answer(outcome_of(command.ticket, refused), life)

    def bind_outcome(self, command: BindPod, refused: Refused | None) -> WriteFinished:
        """The outcome of a bind: unknown without an answer, and not conclusive while the pod can still be bound."""
        if refused is NO_ANSWER:
            return WriteFinished(command.ticket, False, 0, "", NO_ANSWER.message, is_unknown=True)
        outcome = outcome_of(command.ticket, refused)
        is_unbound = not outcome.is_done and self._can_be_bound(command)
        return msgspec.structs.replace(outcome, is_conclusive=not is_unbound, is_unbound=is_unbound)

    def _can_be_bound(self, command: BindPod) -> bool:
        pod = self._facts.get(Kind.POD, command.pod.key)
        if pod is None or pod["metadata"]["uid"] != command.pod.uid:
            return False
        return not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]

    def _is_bound_as(self, command: BindPod) -> bool:
        pod = self._facts.get(Kind.POD, command.pod.key)
        is_same = pod is not None and pod["metadata"]["uid"] == command.pod.uid
        return is_same and pod is not None and pod["spec"].get("nodeName") == command.node

    def _do(self, command: Command) -> Refused | None:
        """Carry out a write as the API server does; returns its refusal, if any."""
        try:
            match command:
                case BindPod(pod=pod, node=node):
                    self._facts.bind(pod.key, pod.uid, node, self._timeline.time)
                    self._kubelets.run(pod.key, pod.uid, node)
                case PatchPodStatus(pod=pod, condition=condition, nominated_node_name=nominated):
                    stated = _stated(condition) if condition is not None else None
                    self._facts.patch_status(pod.key, pod.uid, stated, nominated)
                case PatchGroupStatus(group=group, condition=condition):
                    self._facts.patch_group_status(group.kind, group.key, group.uid, _stated(condition))
                case DeletePod(pod=pod):
                    if self._facts.delete_pod(pod.key, pod.uid, self._timeline.time):
                        self._kubelets.stop_later(pod.key, pod.uid)
                case EvictPod(pod=pod):
                    if self._facts.evict_pod(pod.key, pod.uid, self._timeline.time):
                        self._kubelets.stop_later(pod.key, pod.uid)
                case UpdateObject(kind=kind, key=key, changes=changes):
                    self._facts.merge(kind, key, changes)
                case command if isinstance(command, ClaimCommand):
                    self._claims.carry_out(command, self._timeline.time)
        except Refused as refusal:
            return refusal
        return None


def _stated(condition: Condition) -> Document:
    found: Document = msgspec.to_builtins(condition)
    return found


def _subject_of(command: Command) -> str:
    """What a write is about: a pod, a claim or another object."""
    if isinstance(command, BindPod | PatchPodStatus | DeletePod | EvictPod):
        return command.pod.key
    if isinstance(command, PatchGroupStatus):
        return command.group.key
    return command.key if isinstance(command, UpdateObject) else ""
