"""The whole search for a group's nodes: what its object demands of the cluster first, then the trial that counts, with
preemption for the group as one where its API has that."""

from __future__ import annotations

from msgspec.structs import replace

from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.group_attempt import GroupResult
from scheduler.engine.group_cycle import GroupUnit, Search, Trial, search
from scheduler.engine.group_preemption import search_with_preemption
from scheduler.engine.group_resources import resource_gap
from scheduler.messages.now import Now


def searched(context: CycleContext, unit: GroupUnit, now: Now, *, may_preempt: bool = True) -> Search:
    """The trial that counts. ``context`` is that of a fork, made for this search. ``may_preempt``: False for a question
    about what fits as it is."""
    group = context.cache.groups.get(unit.key)
    if group is not None and group.fault:
        return Trial(GroupResult.ERROR, group.fault)
    gap = resource_gap(group, context.cache.view) if group is not None else ""
    if gap:
        return Trial(message=f"resource gap: {gap}")
    if not may_preempt:
        return (yield from search(context, replace(unit, profile=replace(unit.profile, post_filter_plugins=())), now))
    as_one = context.cache.groups.preempts_as_one(unit.members[0].queued.info)
    starts = search_with_preemption if as_one else search
    return (yield from starts(context, unit, now))
