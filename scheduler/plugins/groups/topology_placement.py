"""TopologyPlacementGenerator: all pods of a group on nodes with one value of a label, if the group demands it.

A group whose ``schedulingConstraints`` name a node label is tried once for each value that nodes have; one that has
pods on nodes already, only where they are. Any other group is tried once, on all nodes. Needs the feature gate
TopologyAwareWorkloadScheduling. No arguments.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.cluster.groups.group import Group
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.placements import Placement, PlacementGeneratePlugin
from scheduler.framework.plugin import Reads
from scheduler.messages.status import Refusal, failure

_NO_DOMAIN = "cannot determine domain for already scheduled pods: "
ALL_NODES = "all-nodes"


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """See docs/kube-scheduler/podgroups.md §7."""

    name = "TopologyPlacementGenerator"
    reads = Reads.NODE

    def placements(self, group: Group, view: View) -> tuple[Placement, ...] | Refusal:
        rows = np.sort(view.ordered_rows)
        if not group.topology_key:
            return (Placement(ALL_NODES, rows),)
        ids, values = view.table.label(group.topology_key), view.table.label_values(group.topology_key)
        placed = view.groups.members(group.reference.key).placed
        only: str | None = None
        if placed:
            domain = _domain_of(placed.values(), group.topology_key, view)
            if isinstance(domain, Refusal):
                return domain
            only = domain
        found: list[Placement] = []
        of_rows = ids[rows]
        for value_id in np.unique(of_rows).tolist():
            value = values.value(value_id)
            if value_id != ABSENT and value is not None and only in (None, value):
                found.append(Placement(value, rows[of_rows == value_id]))
        return tuple(sorted(found, key=_name_of))


def _domain_of(pods: Iterable[PodInfo], key: str, view: View) -> str | Refusal:
    """The one value of the label that the nodes of these pods have."""
    domains: dict[str, None] = {}
    for pod in pods:
        row = view.table.existing_row(pod.node_name)
        node = None if row is None else view.table.nodes[row]
        if node is None:
            missing = f'nodeinfo not found for node name "{pod.node_name}"'
            return failure(f"{_NO_DOMAIN}getting node for pod {pod.key}: {missing}")
        value = node.metadata.labels.get(key)
        if value is None:
            return failure(f"{_NO_DOMAIN}no topology domain found for pod {pod.key}")
        domains[value] = None
    if len(domains) > 1:
        return failure(f"{_NO_DOMAIN}more than 1 domain found for pod group: {', '.join(sorted(domains))}")
    return next(iter(domains))


def _name_of(placement: Placement) -> str:
    return placement.name
