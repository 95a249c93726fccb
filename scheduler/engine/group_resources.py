"""What a group demands of the whole cluster before its pods are tried (``minResources`` of scheduler-plugins)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from scheduler.cluster.groups.group import Group
from scheduler.cluster.view import View
from scheduler.objects.shown_amounts import shown_amount

MAX_SHOWN: Final = 10
"""Resources that the message names: it is written about each member, and an object may demand thousands."""


def resource_gap(group: Group, view: View) -> str:
    """What is missing of each resource, as ``2 cpu, 3Gi memory``; "" if nothing is. All nodes count together, whether
    the pods could go there or not; the room of the group's own pods counts as free."""
    missing: list[str] = []
    table, own = view.table, _held(group, view)
    for name, wanted in group.min_resources:
        found = own[name]
        if not table.is_nowhere(name):
            found += int((table.allocatable(name) - table.requested(name)).clip(0).sum())
        if found < wanted:
            if len(missing) == MAX_SHOWN:
                return ", ".join([*missing, "and more"])
            missing.append(f"{shown_amount(name, wanted - found)} {name}")
    return ", ".join(missing)


def _held(group: Group, view: View) -> Counter[str]:
    """What the group's pods on nodes hold of each resource."""
    members = view.groups.members(group.reference.key).placed
    held: Counter[str] = Counter(pods=len(members))
    for info in members.values():
        for name in ("cpu", "memory", "ephemeral-storage", *info.requests.scalars):
            held[name] += info.requests.amount(name)
    return held
