"""Preemption policies: the configuration, and for each preemptor the results of its earlier preemptions.

Three kinds of preemption end without a placement, and each would repeat for ever if it were not remembered:

- other pods take the room as soon as it is free, since their scheduler ignores the nomination (a ReplicaSet fills the
  node again): after some rounds within a while the node is left out for this preemptor;
- with strict budgets the API server refuses an eviction: the node is left out for a minute;
- the victims do not end (a dead kubelet, a finalizer): after the nomination timeout the node is given up.

A round counts for the preemptor or, if it has a controller, for all pods of that controller; and only once it is known
to have failed: the pod had to preempt again, or failed where it was bound. A Deployment whose pods preempt on one node
one after the other is not stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum
from itertools import count, product

from msgspec import Struct
from msgspec.structs import replace

from scheduler.cluster.pod_info import PodInfo
from scheduler.config.tandem import PreemptionSettings, VictimScope
from scheduler.engine.deadlines import Deadlines, NominationDeadline, RoundEnd, SuspensionEnd
from scheduler.engine.internal import Step
from scheduler.engine.machine import ReadsNominations
from scheduler.framework.post_filter import Nomination, NominationMode, Remove
from scheduler.framework.preemption_policy import EVICTION_REFUSED, TAKEN_AGAIN, VICTIMS_REMAINED, PreemptionPolicy
from scheduler.messages.commands import ReportProblem
from scheduler.messages.now import Now
from scheduler.messages.stimuli import PodsActivated
from scheduler.objects.meta import controller_of

REFUSED_SECONDS = 60.0
"""Seconds for which a node is left out after an eviction was refused there."""

MAX_ROUNDS = 10_000


class Suspension(Enum):
    """Why a node is left out; the value is the label of the metric."""

    TAKEN_AGAIN = "taken_again"
    EVICTION_REFUSED = "eviction_refused"
    VICTIMS_REMAINED = "victims_remained"


_TEXTS = {
    Suspension.TAKEN_AGAIN: TAKEN_AGAIN,
    Suspension.EVICTION_REFUSED: EVICTION_REFUSED,
    Suspension.VICTIMS_REMAINED: VICTIMS_REMAINED,
}


class _Round(Struct, eq=False):
    """One preemption on one node. ``is_over``: it has ended, with or without the pod placed."""

    preemptor: PodInfo
    group: str
    node: str
    is_over: bool = False
    is_in_vain: bool = False


class Standing(Struct, frozen=True):
    """The state of all preemptions, as input to the policy of one."""

    victims_in_flight: tuple[PodInfo, ...]
    is_nominated_node_being_cleared: bool
    is_full: bool


class PreemptionPolicies:
    """The memory of past preemptions. ``own``: the scheduler names of our profiles."""

    def __init__(
        self, settings: PreemptionSettings, own: Collection[str], deadlines: Deadlines, nominator: ReadsNominations
    ) -> None:
        self.configure(settings, own)
        self._deadlines = deadlines
        self._nominator = nominator
        self._serials = count()
        self._rounds: dict[int, _Round] = {}
        self._by_group: dict[str, list[_Round]] = {}
        self._by_preemptor: dict[str, list[_Round]] = {}
        self._suspended: dict[str, dict[str, tuple[Suspension, PodInfo]]] = {}
        """UID → node → the reason for which the node is left out for the pod, temporarily."""
        self._awaited: dict[str, tuple[str, PodInfo]] = {}
        """UID → the nominated node whose victims have a deadline."""
        self.suspensions: Counter[str] = Counter()
        """How often a node was left out, by reason; for metrics."""

    def configure(self, settings: PreemptionSettings, own: Collection[str]) -> None:
        """Replace the settings; the memory of past preemptions stays."""
        self._settings = settings
        self._victim_schedulers = frozenset(own) if settings.victim_scope is VictimScope.OWN else None

    def policy_of(self, pod: PodInfo, standing: Standing) -> PreemptionPolicy:
        """The policy of an attempt that is made now."""
        settings = self._settings
        nominated = pod.pod.nominated_node_name
        return PreemptionPolicy(
            pdb_policy=settings.pdb_policy,
            victim_schedulers=self._victim_schedulers,
            prefer_other_than_daemon_sets=settings.prefer_other_than_daemon_sets,
            excluded_nodes=self.excluded_nodes(pod),
            given_up_node=nominated if nominated in self._suspended.get(pod.uid, ()) else "",
            victims_in_flight=standing.victims_in_flight,
            is_nominated_node_being_cleared=standing.is_nominated_node_being_cleared,
            is_full=standing.is_full,
        )

    def excluded_nodes(self, pod: PodInfo) -> dict[str, str]:
        """The nodes that are left out for the pod now, with the reason."""
        suspended = self._suspended.get(pod.uid)
        excluded = {node: _TEXTS[why] for node, (why, _) in suspended.items()} if suspended else {}
        if self._settings.breaker.rounds and self._by_group:
            excluded |= dict.fromkeys(self._taken_again(_group_of(pod), pod.uid), TAKEN_AGAIN)
        return excluded

    def policy_of_group(self, uid: str, pods: Iterable[PodInfo], standing: Standing) -> PreemptionPolicy:
        """The policy of a group (UID of its object) that makes room as one: a node that is left out for one of its pods
        is left out for all."""
        policies = [self.policy_of(pod, standing) for pod in pods]
        excluded: dict[str, str] = {}
        for policy in policies:
            excluded |= policy.excluded_nodes
        if self._settings.breaker.rounds:
            excluded |= dict.fromkeys(self._taken_again(uid, ""), TAKEN_AGAIN)
        return replace(policies[0], excluded_nodes=excluded, given_up_node="")

    # --- what happens -------------------------------------------------------------------------------------------------

    def started(self, preemptor: PodInfo, room: Remove, now: Now) -> list[Step]:
        """Record that victims are about to be removed; this means that earlier preemptions for this pod failed."""
        breaker = self._settings.breaker
        if not breaker.rounds or all(victim.is_terminating for victim in room.victims):
            return []
        whole = room.group
        uids = [preemptor.uid] if whole is None else [info.uid for info in whole.pods]
        for earlier in [earlier for uid in uids for earlier in self._by_preemptor.get(uid, ())]:
            if not earlier.is_over:
                earlier.is_over = earlier.is_in_vain = True
        if whole is None:
            return self._round_began(preemptor, _group_of(preemptor), room.node, now)
        stands_for = {node: pod for pod in whole.pods for node in (whole.nodes[pod.uid],)}
        steps: list[Step] = []
        for node in dict.fromkeys(victim.node_name for victim in room.victims):
            steps += self._round_began(stands_for.get(node, preemptor), whole.reference.uid, node, now)
        return steps

    def _round_began(self, preemptor: PodInfo, group: str, node: str, now: Now) -> list[Step]:
        breaker = self._settings.breaker
        if len(self._rounds) >= MAX_ROUNDS:
            self._forget_round(next(iter(self._rounds)))
        serial = next(self._serials)
        self._rounds[serial] = latest = _Round(preemptor, group, node)
        rounds = self._by_group.setdefault(latest.group, [])
        for kept in (rounds, self._by_preemptor.setdefault(preemptor.uid, [])):
            kept.append(latest)
        self._deadlines.set(RoundEnd(serial), now.monotonic + breaker.window.seconds)
        if sum(each.is_in_vain for each in rounds if each.node == node) != breaker.rounds - 1:
            return []
        self.suspensions[Suspension.TAKEN_AGAIN.value] += 1
        return [
            ReportProblem(
                f"{preemptor.key}: preemption on node {node} stops after {breaker.rounds} rounds within "
                f"{breaker.window.seconds:g} s, as others took the room each time"
            )
        ]

    def attempt_failed(self, pod: PodInfo, nomination: Nomination, now: Now) -> None:
        """The pod goes back to the queue; if it is nominated, its victims get a deadline."""
        timeout = self._settings.nomination_timeout.seconds
        if not timeout:
            return
        # A nomination that is kept may not be in the pod's status yet: the nominator knows it.
        node = nomination.node_name or self._nominator.nominated_node(pod.uid) or pod.pod.nominated_node_name
        if nomination.mode is NominationMode.CLEAR or not node:
            self._stop_awaiting(pod.uid)
            return
        awaited = self._awaited.get(pod.uid)
        if awaited is None or awaited[0] != node:
            self._awaited[pod.uid] = node, pod
            self._deadlines.set(NominationDeadline(pod.uid), now.monotonic + timeout)

    def refused(self, pods: Iterable[PodInfo], nodes: Iterable[str], now: Now) -> None:
        """Record that victims could not be evicted from these nodes for these pods."""
        for pod, node in product(pods, nodes):
            self._suspend(pod, node, Suspension.EVICTION_REFUSED, now.monotonic + REFUSED_SECONDS)

    def placed(self, uid: str) -> None:
        """Record that the pod is bound: its preemption has succeeded."""
        if not (self._awaited or self._suspended or self._by_preemptor):
            return
        self.gone(uid)
        for each in self._by_preemptor.get(uid, ()):
            each.is_over = True

    def ended_in_failure(self, uid: str) -> None:
        """Record that the pod failed on its node, as when the kubelet finds the room taken."""
        for each in self._by_preemptor.get(uid, ()):
            each.is_over = each.is_in_vain = True

    def gone(self, uid: str) -> None:
        """Drop a pod that no longer waits."""
        self._stop_awaiting(uid)
        for node in self._suspended.pop(uid, ()):
            self._deadlines.drop(SuspensionEnd(uid, node))

    # --- what is due --------------------------------------------------------------------------------------------------

    def due(self, deadline: NominationDeadline | SuspensionEnd | RoundEnd, now: Now) -> list[Step]:
        if isinstance(deadline, NominationDeadline):
            return self._nomination_timed_out(deadline.uid, now)
        if isinstance(deadline, SuspensionEnd):
            return self._suspension_over(deadline.uid, deadline.node)
        return self._round_is_old(deadline.serial)

    def _nomination_timed_out(self, uid: str, now: Now) -> list[Step]:
        node, pod = self._awaited.pop(uid)
        if self._nominator.nominated_node(uid) != node:
            return []
        self._suspend(pod, node, Suspension.VICTIMS_REMAINED, now.monotonic + self._settings.nomination_timeout.seconds)
        text = f"{pod.key}: gave up node {node}, whose victims did not end in time"
        return [ReportProblem(text), PodsActivated((pod.key,))]

    def _suspension_over(self, uid: str, node: str) -> list[Step]:
        nodes = self._suspended[uid]
        _, pod = nodes.pop(node)
        if not nodes:
            del self._suspended[uid]
        return [PodsActivated((pod.key,))]

    def _round_is_old(self, serial: int) -> list[Step]:
        """Drop an old round, which no longer counts; its pod may try the node again."""
        old = self._rounds[serial]
        pod = old.preemptor
        was_stopped = bool(self._taken_again(old.group, pod.uid))
        self._forget_round(serial)
        return [PodsActivated((pod.key,))] if was_stopped else []

    # --- inside -------------------------------------------------------------------------------------------------------

    def _taken_again(self, group: str, uid: str) -> list[str]:
        """The nodes on which enough rounds of ``group`` have failed. If a pod must preempt again, its last round has
        failed; ``uid`` "": so has every last round of the group."""
        rounds = self._by_group.get(group)
        if not rounds:
            return []
        vain = Counter(
            each.node for each in rounds if each.is_in_vain or (not each.is_over and uid in ("", each.preemptor.uid))
        )
        return [node for node, times in vain.items() if times >= self._settings.breaker.rounds]

    def _suspend(self, pod: PodInfo, node: str, why: Suspension, until: float) -> None:
        self._suspended.setdefault(pod.uid, {})[node] = why, pod
        self._deadlines.set(SuspensionEnd(pod.uid, node), until)
        self.suspensions[why.value] += 1

    def _stop_awaiting(self, uid: str) -> None:
        if self._awaited.pop(uid, None) is not None:
            self._deadlines.drop(NominationDeadline(uid))

    def _forget_round(self, serial: int) -> None:
        forgotten = self._rounds.pop(serial)
        self._deadlines.drop(RoundEnd(serial))
        for index, key in ((self._by_group, forgotten.group), (self._by_preemptor, forgotten.preemptor.uid)):
            index[key].remove(forgotten)
            if not index[key]:
                del index[key]


def _group_of(pod: PodInfo) -> str:
    """The UID of the pod's controller, or its own: a pod's replacement counts as the same preemptor."""
    owner = controller_of(pod.pod.metadata)
    return pod.uid if owner is None else owner.uid
