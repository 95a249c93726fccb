"""PodGroupPodsCount: prefers the placement that holds most of a group's pods.

Counts the group's pods that have a node, and those that the placement would hold. Needs the feature gate
TopologyAwareWorkloadScheduling. No arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.framework.placements import Placed, PlacementScorePlugin, share_of_largest
from scheduler.framework.plugin import Reads


class PodGroupPodsCount(PlacementScorePlugin):
    """See docs/kube-scheduler/podgroups.md §7."""

    name = "PodGroupPodsCount"
    reads = Reads.NOTHING

    def score_placement(self, placed: Placed) -> int:
        return len(placed.view.groups.members(placed.key).placed)

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        return share_of_largest(scores)
