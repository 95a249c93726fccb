"""Preemption for a group of pods: the victims whose removal lets the group fit as a whole.

1.  All units of lower priority are taken away, on a fork; the group must fit then.
2.  They are given back one by one, the most important first, as long as the group still fits.
3.  What is left are the victims. The members are nominated to the nodes on which they then fit.

kube-scheduler 1.36 runs the group's whole cycle for each unit that it gives back. Here

- a unit that concerns members only through its own node is given back with a check of the members on that node alone;
  each of them that no longer fits there is tried on the other nodes once (``group_standing.py``);
- if all members are of one class that is exact: a node for one more of them is a node for the member that must move;
- otherwise the whole cycle is run only if that has found no node;
- units that may concern any member are given back many at a time, and fewer if that is too many.

The answer is never worse: a unit is a victim in place of a less important one only if kube-scheduler chooses it, too.
Nodes that the breaker suspends are not touched, and with strict budgets a set that breaks one is refused.
Source: docs/kube-scheduler/podgroups.md §8.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from scheduler.cluster.groups.group import Group
from scheduler.cluster.pod_info import PodInfo
from scheduler.config.tandem import PDBPolicy
from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.extender_round import Answers, Calls
from scheduler.engine.group_attempt import GroupResult
from scheduler.engine.group_commit import Latest
from scheduler.engine.group_cycle import PAUSE, GroupUnit, Search, Trial, forked, not_found, search, without_nominations
from scheduler.engine.group_standing import Standing, holds, is_local, is_one_class, put_back, take_away
from scheduler.engine.outcome import NotPlaced
from scheduler.framework.post_filter import CLEAR_NOMINATION, PutOff, Remove, WholeGroup, nominate
from scheduler.messages.now import Now
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.preemption.budgets import usable_budgets
from scheduler.preemption.dry_run import VIOLATES_BUDGET
from scheduler.preemption.eligibility import NEVER, TOO_MANY
from scheduler.preemption.group_victims import Importance, Unit, candidate_units, importance, in_order, violates_budget
from scheduler.preemption.importance import most_important_first

NO_CANDIDATES = "No preemption victims found for incoming preemptor"
NOT_REGISTERED = "default preemption plugin is not registered, workload aware preemption is disabled"
NOT_IN_PLACEMENTS = "workload aware preemption is not supported for pod groups with scheduling constraints"
PREEMPTION_PLUGIN = "DefaultPreemption"

Nodes = Mapping[str, str]
"""UID → node."""


def search_with_preemption(context: CycleContext, unit: GroupUnit, now: Now) -> Search:
    """The trial that counts, of a group that may make room as one. ``context`` is that of a fork, made for this."""
    trial = yield from search(forked(context), unit, now)
    if trial.result is not GroupResult.UNSCHEDULABLE:
        return trial
    group = context.cache.groups.get(unit.key)
    if group is None:
        if not _has_preemption(unit):
            return _refused(trial, NOT_REGISTERED)
        trial.result = GroupResult.ERROR
        trial.message = f"failed to get pod group object: {not_found(unit.key)}"
        return trial
    return (yield from _make_room(context, unit, group, trial, now))


def _make_room(context: CycleContext, unit: GroupUnit, group: Group, failed: Trial, now: Now) -> Search:
    pods = [member.queued.info for member in unit.members]
    policy = replace(
        context.policies.policy_of_group(group.reference.uid, pods, now), node_scope=unit.profile.node_scope
    )
    refused = _why_not(unit, group, pods)
    if refused:
        return _refused(failed, refused)
    if policy.is_full:
        return _put_off(failed)
    priority = min(info.priority for info in pods) if group.priority is None else group.priority
    cache, own = context.cache, group.reference.key
    units = candidate_units(cache.pods, cache.groups, own, priority, policy, cache.table)
    if not units:
        return _in_vain(failed, NO_CANDIDATES)
    budgets = usable_budgets(context.cache.view.all_of(PodDisruptionBudget), policy.victims_in_flight)
    ordered = in_order((yield from _weighed(units, now)), budgets)
    asking = replace(unit, profile=replace(unit.profile, post_filter_plugins=()))
    emptied = yield from _emptied(context, asking, ordered)
    trial = yield from search(forked(emptied), asking, now)
    if trial.result is GroupResult.UNSCHEDULABLE:
        return _in_vain(failed, trial.message)
    if trial.result is not GroupResult.SCHEDULED:
        failed.result, failed.message = trial.result, trial.message
        return failed
    giving = _GivingBack(context, emptied, asking, trial.nodes, now)
    yield from giving.run(ordered)
    if policy.pdb_policy is PDBPolicy.STRICT and violates_budget(giving.victims, budgets):
        return _refused(failed, VIOLATES_BUDGET.message)
    return _waiting(failed, unit, group, giving, now)


def _has_preemption(unit: GroupUnit) -> bool:
    """Whether the profile has the plugin: where groups preempt as one its PostFilter is not asked, and need not be
    enabled."""
    return PREEMPTION_PLUGIN in unit.profile.enabled


def _why_not(unit: GroupUnit, group: Group, pods: Iterable[PodInfo]) -> str:
    """Why the group must not preempt at all; "" if it may."""
    if not _has_preemption(unit):
        return NOT_REGISTERED
    if group.demands_topology:
        return NOT_IN_PLACEMENTS
    return NEVER if any(info.pod.spec.preemption_policy == "Never" for info in pods) else ""


def _weighed(units: Iterable[Unit], now: Now) -> Generator[Calls, Answers, list[tuple[Importance, Unit]]]:
    weighed = []
    for unit in units:
        weighed.append((importance(unit, now.wall), unit))
        yield PAUSE
    return weighed


def _emptied(context: CycleContext, unit: GroupUnit, units: Sequence[Unit]) -> Generator[Calls, Answers, CycleContext]:
    """A fork without these units. Members have no nomination there: the search starts afresh."""
    emptied = without_nominations(forked(context), unit)
    for each in units:
        take_away(emptied, each)
        yield PAUSE
    return emptied


class _GivingBack:
    """Gives units back to ``bare``, a fork without them and without the members, as long as the group fits."""

    def __init__(self, full: CycleContext, bare: CycleContext, unit: GroupUnit, nodes: Nodes, now: Now) -> None:
        self._full = full
        self._bare = bare
        self._unit = unit
        self._now = now
        self._infos = {member.uid: member.queued.info for member in unit.members}
        self.nodes: Nodes = nodes
        """Of the members, beside what is given back."""
        self.victims: list[Unit] = []

    def run(self, units: Sequence[Unit]) -> Generator[Calls, Answers, None]:
        if not is_local(self._full, self._unit, units, self._now):
            yield from self._many(units)
            return
        yield from self._one_by_one(units)
        if not self._holds():
            # Members concern each other, and not every order in which they take their nodes will do.
            for unit in units:
                take_away(self._bare, unit)
            self.victims = []
            trial = yield from search(forked(self._bare), self._unit, self._now)
            self.nodes = trial.nodes
            yield from self._many(units)

    # --- units that concern only their own nodes ----------------------------------------------------------------------

    def _one_by_one(self, units: Sequence[Unit]) -> Generator[Calls, Answers, None]:
        are_alike = is_one_class(self._full, self._unit)
        standing = self._stand()
        for unit in units:
            put_back(self._bare, unit)
            if not standing.give_back(unit):
                found = None if are_alike else (yield from self._from_scratch())
                if found is None:
                    take_away(self._bare, unit)
                    self.victims.append(unit)
                else:
                    self.nodes = found
                    standing = self._stand()
            yield PAUSE
        self.nodes = standing.nodes

    def _stand(self) -> Standing:
        return Standing(forked(self._bare), self._unit, self._needed(self.nodes), self._now)

    def _needed(self, nodes: Nodes) -> Nodes:
        """The most urgent of these members, as many as complete the quorum."""
        group = self._bare.cache.groups.get(self._unit.key)
        quorum = group.min_count if group is not None and group.min_count is not None else 1
        missing = max(1, quorum - len(self._bare.cache.groups.members(self._unit.key).placed))
        return dict(list(nodes.items())[:missing])

    # --- units that may concern all members ---------------------------------------------------------------------------

    def _many(self, units: Sequence[Unit]) -> Generator[Calls, Answers, None]:
        """Give back all of these units or, where the group does not fit then, each half of them by itself."""
        if not units:
            return
        for unit in units:
            put_back(self._bare, unit)
        yield PAUSE
        if self._holds():
            return
        if len(units) == 1:
            found = yield from self._from_scratch()
            if found is not None:
                self.nodes = found
                return
            take_away(self._bare, units[0])
            self.victims.append(units[0])
            return
        for unit in units:
            take_away(self._bare, unit)
        middle = len(units) // 2
        yield from self._many(units[:middle])
        yield from self._many(units[middle:])

    def _holds(self) -> bool:
        return holds(self._bare, self._unit, self.nodes, self._now, self._infos)

    def _from_scratch(self) -> Generator[Calls, Answers, Nodes | None]:
        """The nodes that the group's cycle finds beside all that is given back; None if it does not fit."""
        trial = yield from search(forked(self._bare), self._unit, self._now)
        return trial.nodes if trial.result is GroupResult.SCHEDULED else None


# --- what becomes of the attempt --------------------------------------------------------------------------------------


def _refused(failed: Trial, reason: str) -> Trial:
    failed.message = f"{failed.message}, {reason}"
    return failed


def _in_vain(failed: Trial, reason: str) -> Trial:
    """The answer when no removal helps. Room that was made for the group earlier would be held for ever: kube-scheduler
    1.36 keeps it, other than that of a single pod."""
    failed.gives_up_room = True
    return _refused(failed, reason)


def _put_off(failed: Trial) -> Trial:
    """The answer when the limit of removals is reached: the group is tried again when one has ended."""
    failed = _refused(failed, TOO_MANY)
    failed.room = PutOff()
    return failed


def _waiting(failed: Trial, unit: GroupUnit, group: Group, giving: _GivingBack, now: Now) -> Trial:
    """The members that fit once the victims are gone are nominated; the others keep what was said of them."""
    nodes = giving.nodes
    for member in unit.members:
        outcome = failed.outcomes.get(member.uid)
        text = outcome.message if isinstance(outcome, NotPlaced) else failed.message
        kept = outcome if isinstance(outcome, NotPlaced) else NotPlaced(text)
        node = nodes.get(member.uid)
        nomination = CLEAR_NOMINATION if node is None else nominate(node)
        failed.outcomes[member.uid] = msgspec.structs.replace(kept, nomination=nomination, room=None)
    failed.result = GroupResult.WAITING_ON_PREEMPTION
    failed.nodes = dict(nodes)
    victims = most_important_first([info for each in giving.victims for info in each.pods], now.wall)
    if victims:
        pods = tuple([member.queued.info for member in unit.members if member.uid in nodes])
        whole = WholeGroup(group.reference, dict(nodes), pods)
        failed.room = Remove(nodes[pods[-1].uid], tuple(victims), whole)
    return failed


def still_helps(context: CycleContext, unit: GroupUnit, trial: Trial, latest: Latest, now: Now) -> bool:
    """Whether the group would still fit on its nodes without its victims: the cluster may have changed since the search
    began."""
    if not isinstance(trial.room, Remove):
        return True
    fork = without_nominations(forked(context), unit)
    for victim in trial.room.victims:
        fork.cache.remove_pod(victim.uid)
    waiting = {member.uid: info for member in unit.members if (info := latest(member.uid)) is not None}
    return holds(fork, unit, trial.nodes, now, waiting)
