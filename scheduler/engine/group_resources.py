"""What a group demands of the whole cluster before its pods are tried (``minResources`` of scheduler-plugins)."""

from __future__ import annotations

from scheduler.cluster.groups.group import Group
from scheduler.cluster.view import View
from scheduler.objects.shown_amounts import shown_amount


def resource_gap(group: Group, view: View) -> str:
    """What is missing of each resource, as ``2 cpu, 3Gi memory``; "" if nothing is. All nodes count together, whether
    the pods could go there or not; the room of the group's own pods counts as free."""
    missing = []
    members = view.groups.members(group.reference.key).placed
    for name, wanted in group.min_resources:
        offered, taken = view.table.allocatable(name), view.table.requested(name)
        free = int((offered - taken).clip(0).sum())
        own = sum([1 if name == "pods" else info.requests.amount(name) for info in members.values()])
        if free + own < wanted:
            missing.append(f"{shown_amount(name, wanted - free - own)} {name}")
    return ", ".join(missing)
