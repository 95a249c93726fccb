"""A fork of the cluster on which a group of pods is really scheduled: the group's cycle itself, without extenders."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from msgspec import Struct, field

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.driving import run_in_steps
from scheduler.engine.engine import Engine
from scheduler.engine.gate_facts import gates_of
from scheduler.engine.group_attempt import GroupResult
from scheduler.engine.group_cycle import GroupUnit, Member
from scheduler.engine.group_cycle import Trial as Searched
from scheduler.engine.group_members import by_urgency
from scheduler.engine.group_search import searched
from scheduler.engine.outcome import NotPlaced
from scheduler.engine.questions.trial import Trial
from scheduler.framework.post_filter import Remove
from scheduler.messages.now import Now
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queued_pod import QueuedPod


class GroupTried(Struct, frozen=True):
    """What became of a group. ``is_placed``: it starts, the pods of ``nodes`` (UID → node) with it."""

    is_placed: bool = False
    message: str = ""
    """Why it does not start."""
    tried: int = 0
    """The number of pods that were tried: those that nothing holds back."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    victims: tuple[PodInfo, ...] = ()
    """The pods that must leave before it starts."""
    failed: tuple[tuple[PodInfo, Attempt], ...] = ()
    """The members that found no node, with their attempts."""


class GroupTrial(Trial):
    """One fork, for one try."""

    def __init__(self, engine: Engine, now: Now) -> None:
        super().__init__(engine, now)
        self._gates = gates_of(self.profiles, self.cache, engine.room, QueueMetrics())
        self._find = engine.queue.find

    def place_group(
        self, key: str, pods: Sequence[PodInfo], *, may_preempt: bool = False
    ) -> Generator[None, None, GroupTried]:
        """Schedule these waiting members of a group in the fork: those that get nodes count there afterwards. Yields
        between members. With preemption the victims are still there, and no pod has a node."""
        members, refused = self._members(pods)
        if not members:
            return GroupTried(message=refused)
        profiles = {member.attempt.scheduler_name: self.profiles[member.attempt.scheduler_name] for member in members}
        if len(profiles) > 1:
            return GroupTried(message=f"its pods name several schedulers: {', '.join(profiles)}", tried=len(members))
        (profile,) = profiles.values()
        unit = GroupUnit(key, profile, members)
        trial = yield from run_in_steps(searched(self._context, unit, self.now, may_preempt=may_preempt))
        if trial.result is not GroupResult.SCHEDULED:
            return _left_out(trial, members, may_preempt)
        by_uid = {member.uid: member.queued.info for member in members}
        for uid, node in trial.nodes.items():
            if self.cache.placed(uid) is None:
                # Not assumed here yet: the trial of a placement is done on a fork of its own.
                self._context.assumptions.assume(by_uid[uid].on_node(node))
        return GroupTried(True, tried=len(members), nodes=dict(trial.nodes), failed=_failed(trial, members))

    def _members(self, pods: Sequence[PodInfo]) -> tuple[list[Member], str]:
        """Those that no gate holds back and that stay, in the order of the queue; and what holds back the first of the
        others."""
        members, refused = [], ""
        for info in pods:
            if info.is_terminating:
                refused = refused or "its pods are being deleted"
                continue
            queued = QueuedPod(info, 0)
            refusal = self._gates(queued)
            name = info.pod.spec.scheduler_name
            if refusal is not None:
                refused = refused or f"held back by {refusal.plugin}: {refusal.message}"
            elif name in self.profiles:
                known = self._find(info.key)
                queued.initial_attempt = None if known is None else known.initial_attempt
                members.append(Member(queued, Attempt(info.key, info.uid, name, number=0, started_wall=self.now.wall)))
        members.sort(key=lambda member: by_urgency(member.queued))
        return members, refused


def _left_out(trial: Searched, members: Sequence[Member], may_preempt: bool) -> GroupTried:
    rooms = [trial.room, *(one.room for one in trial.outcomes.values() if isinstance(one, NotPlaced))]
    victims = {info.uid: info for room in rooms if isinstance(room, Remove) for info in room.victims}
    failed = _failed(trial, members)
    return GroupTried(
        message=_said(trial, members),
        tried=len(members),
        victims=tuple(victims.values()) if may_preempt else (),
        nodes=dict(trial.nodes),
        failed=failed,
    )


def _said(trial: Searched, members: Sequence[Member]) -> str:
    """The group's message, and that of the first member that found no node."""
    texts = [one.message for one in trial.outcomes.values() if isinstance(one, NotPlaced)]
    if not texts or trial.result is GroupResult.ERROR:
        return trial.message
    return f"{trial.message}: {len(trial.nodes)} of {len(members)} pods find a node, for the others: {texts[0]}"


def _failed(trial: Searched, members: Sequence[Member]) -> tuple[tuple[PodInfo, Attempt], ...]:
    return tuple(
        [
            (member.queued.info, trial.attempts[member.uid])
            for member in members
            if isinstance(trial.outcomes.get(member.uid), NotPlaced) and member.uid not in trial.nodes
        ]
    )
