"""VolumeBinding with the gate StorageCapacityScoring: nodes where volumes leave more capacity free score higher.

Where existing volumes serve claims, what the claims ask for is compared with the sizes of these volumes, by storage
class; where all volumes are to be made, with the free capacity that their drivers report. A node's score is the mean
over its classes. Source: docs/kube-scheduler/volumes.md §2.6.

Arguments: those of VolumeBinding; ``shape``, points of utilization (0 to 100) and score (0 to 10), is 10 for an empty
volume or pool and 0 for a full one where it is not stated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.config.validators import shape
from scheduler.framework.plugin import Rows, Scores, State
from scheduler.messages.status import SKIP, Refusal, Skip
from scheduler.objects.storage import CSIStorageCapacity
from scheduler.plugins.normalization import shape_scores
from scheduler.plugins.volume_binding.delayed import DelayedClaims, Sources
from scheduler.plugins.volume_binding.volume_binding import (
    Claims,
    UtilizationShapePoint,
    VolumeBinding,
    VolumeBindingArgs,
    timeout_faults,
)

_EMPTIER_IS_BETTER = (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))
_NANO = 10**9

Use = tuple[str, int, int]
"""A storage class, the bytes asked for, and the bytes that there are."""


class CapacityScoringArgs(VolumeBindingArgs, frozen=True, rename="camel"):
    shape: tuple[UtilizationShapePoint, ...] | None = _EMPTIER_IS_BETTER

    @property
    def points(self) -> tuple[UtilizationShapePoint, ...]:
        """The shape in force: an empty one is not stated."""
        return self.shape or _EMPTIER_IS_BETTER


class CapacityScoringVolumeBinding(VolumeBinding):
    """Scores each node by itself: the volumes that claims would get there are looked up one node after the other."""

    stays_in_range = True
    Args = CapacityScoringArgs

    def __init__(self, args: CapacityScoringArgs | None = None) -> None:
        stated = args or CapacityScoringArgs()
        super().__init__(stated)
        self._score_of_percent: list[int] = shape_scores(stated.points).tolist()

    @classmethod
    def validate_args(cls, args: VolumeBindingArgs, path: str) -> tuple[tuple[str, str], ...]:
        assert isinstance(args, CapacityScoringArgs)
        faults = (*timeout_faults(args, path), *shape(f"{path}.shape", args.points))
        return tuple((fault.path, fault.message) for fault in faults)

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        state = self.pre_filter(pod, view)
        return state if isinstance(state, Claims) and state.delayed is not None else SKIP

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        assert isinstance(state, Claims)
        assert state.delayed is not None
        listed = range(*rows.indices(view.table.size)) if isinstance(rows, slice) else rows.tolist()
        return np.array([self._score_on(state.delayed, view, row) for row in listed], np.int64)

    def _score_on(self, claims: DelayedClaims, view: View, row: int) -> int:
        node = view.table.nodes[row]
        if node is None:
            return 0
        labels = node.metadata.labels
        sources = claims.sources_on(node.metadata.name, labels)
        asked: dict[str, int] = {}
        there: dict[str, int] = {}
        if sources.bindings:
            for name, wanted, size in _of_volumes(sources):
                asked[name] = asked.get(name, 0) + wanted
                there[name] = there.get(name, 0) + size
        else:
            for name, wanted, size in _to_be_made(sources, claims, labels, view):
                asked[name] = asked.get(name, 0) + wanted
                there[name] = size  # not added up: all volumes of a class share its free capacity
        scores = [self._score(wanted, there[name]) for name, wanted in asked.items()]
        return (2 * sum(scores) + len(scores)) // (2 * len(scores)) if scores else 0

    def _score(self, asked: int, there: int) -> int:
        """``asked``, ``there``: bytes of one class."""
        return self._score_of_percent[100 if there == 0 or asked > there else asked * 100 // there]


def _of_volumes(sources: Sources) -> Iterator[Use]:
    for volume, claim in sources.bindings:
        yield volume.storage_class, _bytes(claim.requested_storage or 0), _bytes(volume.storage_capacity)


def _to_be_made(sources: Sources, claims: DelayedClaims, labels: Mapping[str, str], view: View) -> Iterator[Use]:
    for claim in sources.provisions:
        each = claims.prepared(claim)
        key = each.capacity.smallest(each.size, labels) if each.capacity is not None else None
        found = view.find(CSIStorageCapacity, key) if key is not None else None
        if found is not None:
            yield claim.storage_class or "", _bytes(each.size), _bytes(found.free or 0)


def _bytes(nano: int) -> int:
    """Whole bytes, rounded up, as the value of a quantity."""
    return -(-nano // _NANO)
