"""The members of a group placed on a fork, while victims are given back one after the other.

Each member keeps its node as long as it fits there, since a later attempt tries the nominated node first. So only the
members that a unit may concern are checked when it is given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from scheduler.cluster.groups.group import GANG_PLUGIN
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.driving import run_without_extenders
from scheduler.engine.extender_round import Answers
from scheduler.engine.group_cycle import GroupUnit, Member, another, forked
from scheduler.engine.outcome import Placed
from scheduler.engine.scheduling_cycle import looked_at, place_on, scheduling_cycle
from scheduler.errors import PluginError
from scheduler.framework.asked_filters import AskedFilter
from scheduler.framework.plugin import Reads
from scheduler.messages.now import Now
from scheduler.preemption.group_victims import Unit
from scheduler.preemption.wave_filters import filters_asked

NO_ANSWERS: Answers = ()


def take_away(context: CycleContext, unit: Unit) -> None:
    for info in unit.pods:
        context.cache.remove_pod(info.uid)


def put_back(context: CycleContext, unit: Unit) -> None:
    for info in unit.pods:
        context.cache.observe_pod(info)


class Standing:
    """Members placed on ``context``, a fork made for them. ``nodes``: UID → node."""

    def __init__(self, context: CycleContext, group: GroupUnit, nodes: Mapping[str, str], now: Now) -> None:
        self.context = context
        self.nodes = dict(nodes)
        self._group = group
        self._now = now
        self._members = {member.uid: member for member in group.members}
        self._on: dict[str, list[str]] = {}
        for uid, node in nodes.items():
            self._assume(uid, node)

    def give_back(self, unit: Unit) -> bool:
        """Put back a unit whose pods concern only the members on their nodes; members that no longer fit there move to
        other nodes. False, and nothing has changed, if one of them fits nowhere."""
        there = dict.fromkeys([info.node_name for info in unit.pods])
        touched = [uid for node in there for uid in self._on.get(node, ())]
        before = {uid: self.nodes[uid] for uid in touched}
        for uid in touched:
            self._release(uid)
        put_back(self.context, unit)
        displaced = [uid for uid in touched if not self._stands(uid, before[uid])]
        if all(self._finds_another(uid) for uid in displaced):
            return True
        for uid in touched:
            if uid in self.nodes:
                self._release(uid)
        take_away(self.context, unit)
        for uid in touched:
            self._assume(uid, before[uid])
        return False

    def _stands(self, uid: str, node: str) -> bool:
        member = self._members[uid]
        attempt, profile = another(member.attempt), self._group.profile
        placing = place_on(self.context, profile, member.queued.info, attempt, self._now, node, is_checked=True)
        return self._took_place(uid, run_without_extenders(placing))

    def _finds_another(self, uid: str) -> bool:
        member = self._members[uid]
        info, attempt = member.queued.info, another(member.attempt)
        cycle = scheduling_cycle(self.context, self._group.profile, info, attempt, self._now)
        return self._took_place(uid, run_without_extenders(cycle))

    def _took_place(self, uid: str, outcome: object) -> bool:
        if isinstance(outcome, Placed):
            self._note(uid, outcome.pod.node_name)
        return isinstance(outcome, Placed)

    def _assume(self, uid: str, node: str) -> None:
        self.context.assumptions.assume(self._members[uid].queued.info.on_node(node))
        self._note(uid, node)

    def _release(self, uid: str) -> None:
        self.context.assumptions.release(uid)
        self._on[self.nodes.pop(uid)].remove(uid)

    def _note(self, uid: str, node: str) -> None:
        self.nodes[uid] = node
        self._on.setdefault(node, []).append(uid)


def holds(
    context: CycleContext, group: GroupUnit, nodes: Mapping[str, str], now: Now, latest: Mapping[str, PodInfo]
) -> bool:
    """Whether all members with a node fit there, one after the other, and Permit then says yes; on a fork of its own.
    ``latest``: UID → the pods as they are now."""
    fork = replace(forked(context), extenders=())
    is_permitted = False
    for member in group.members:
        node = nodes.get(member.uid)
        if node is None:
            continue
        info = latest.get(member.uid)
        if info is None:
            return False
        placing = place_on(fork, group.profile, info, another(member.attempt), now, node, is_checked=True)
        outcome = run_without_extenders(placing)
        if not isinstance(outcome, Placed):
            return False
        is_permitted = is_permitted or not outcome.waits
    return is_permitted


def is_local(context: CycleContext, group: GroupUnit, units: Iterable[Unit], now: Now) -> bool:
    """Whether each of these pods, if it comes back, can only concern members on its own node: no plugin that looks
    further concerns a member, or none that counts pods counts one of these.

    ``context``: with all of them in place. A plugin that skips a pod there skips it without some of them, too.
    """
    if context.extenders:
        return False
    pods = [info for unit in units for info in unit.pods]
    seen: set[int] = set()
    for member in group.members:
        try:
            run = looked_at(context, group.profile, member.queued.info, another(member.attempt), now)
        except PluginError:
            return False
        if id(run.pod_class) in seen:
            continue
        seen.add(id(run.pod_class))
        others = [plugin for plugin in group.profile.permit_plugins if plugin.name != GANG_PLUGIN]
        for plugin in (*group.profile.reserve_plugins, *others):
            if plugin.name not in run.pod_class.unconcerned:
                return False
        asked = filters_asked(group.profile.filter_plugins, run.filters.states)
        if asked is None or not all(_is_blind(one, pods) for one in asked.asked):
            return False
    return any(plugin.name == GANG_PLUGIN for plugin in group.profile.permit_plugins)


def _is_blind(asked: AskedFilter, pods: Sequence[PodInfo]) -> bool:
    """Whether the plugin's answers for one node do not depend on these pods on other nodes."""
    if Reads.UNDECLARED in asked.plugin.reads:
        return False
    return not asked.counts_pods or not any(asked.counts(info) for info in pods)


def is_one_class(context: CycleContext, group: GroupUnit) -> bool:
    """Whether all members are alike to every plugin."""
    first: Member | None = None
    view, profile = context.cache.view, group.profile
    for member in group.members:
        if first is None:
            first, known = member, context.classes.find(profile, member.queued.info, view)[0]
        elif (
            context.classes.find(profile, member.queued.info, view)[0] is not known
            or member.queued.info.priority != first.queued.info.priority
        ):
            return False
    return True
