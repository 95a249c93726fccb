"""Placements of a group of pods: sets of nodes, one of which is to hold all of its pods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.groups.group import Group
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import MAX_NODE_SCORE, Plugin
from scheduler.messages.status import Refusal


class Placement(Struct, frozen=True):
    """``rows``: int64, ascending, of nodes that exist."""

    name: str
    rows: npt.NDArray[np.int64]


class Placed(Struct, frozen=True):
    """A group as one placement would hold it. ``view`` counts ``pods``, which were placed in this cycle, too."""

    key: str
    """namespace/name of the group."""
    placement: Placement
    pods: Sequence[PodInfo]
    view: View


class PlacementGeneratePlugin(Plugin):
    def placements(self, group: Group, view: View) -> tuple[Placement, ...] | Refusal:
        """The placements worth a try. A Refusal is an error."""
        raise NotImplementedError


class PlacementScorePlugin(Plugin):
    def score_placement(self, placed: Placed) -> int:
        raise NotImplementedError

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        """The scores from 0 to 100, from those of all feasible placements."""
        return scores


def share_of_largest(scores: Sequence[int]) -> Sequence[int]:
    """Each as a percentage of the largest; as they are where none is above 0."""
    largest = max(scores)
    return [score * MAX_NODE_SCORE // largest for score in scores] if largest > 0 else scores
