"""What a cycle sees of the cluster: live, frozen (a copy), or one row changed (a what-if)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.cluster.affinity_terms import AffinityTerms
from scheduler.cluster.image_index import ImageIndex
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_counts import PodCounts
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.volumes.facts import Volumes
from scheduler.objects.kinds import Kind


class View:
    """Everything a plugin may look at. Plugins only read it.

    ``table`` is the live one in a normal cycle. A one-row view (``one_row``) has a table of its own with that node as
    row 0, which preemption and nominated pods change freely; counters, terms and objects stay those of the cluster,
    since what a plugin counted is in its State.
    """

    __slots__ = ("affinity_terms", "images", "live_rows", "node_count", "objects", "pod_counts", "table", "volumes")

    def __init__(
        self,
        table: NodeTable,
        objects: ObjectStore,
        images: ImageIndex,
        pod_counts: PodCounts,
        affinity_terms: AffinityTerms,
        volumes: Volumes,
        node_count: int | None = None,
        live_rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.table = table
        self.objects = objects
        self.images = images
        self.pod_counts = pod_counts
        self.affinity_terms = affinity_terms
        self.volumes = volumes
        self.node_count = node_count
        """Nodes of the whole cluster, where the table is only a part of it."""
        self.live_rows = live_rows
        """Where the table is a private copy: the rows that it is a copy of, in the table that counters are kept for."""

    @property
    def rows(self) -> slice:
        """All rows, those without a node included."""
        return slice(0, self.table.size)

    @property
    def ordered_rows(self) -> npt.NDArray[np.int64]:
        """Rows of the nodes that exist, in kube-scheduler's order."""
        return self.table.order.rows

    @property
    def total_nodes(self) -> int:
        return self.table.node_count if self.node_count is None else self.node_count

    def get(self, kind: Kind, key: str) -> Any:
        """The object of this kind and key (``namespace/name``), or None."""
        return self.objects.get(kind, key)

    def all(self, kind: Kind) -> Mapping[str, Any]:
        return self.objects.all(kind)

    @property
    def epoch(self) -> tuple[int, ...]:
        """Equal epochs of one cache promise equal versions of everything: only pods came to rows or left them."""
        return (
            self.table.node_version,
            self.table.size,
            self.objects.changes,
            self.pod_counts.changes,
            self.affinity_terms.version,
            self.images.version,
            self.volumes.version,
        )

    def version(self, kind: Kind) -> int:
        """Grows with each change of the kind's objects."""
        return self.objects.version(kind)

    def take(self, rows: Sequence[int]) -> View:
        """A view whose table is a private copy of these rows (as rows 0, 1, ...)."""
        taken = np.array(rows, np.int64)
        return View(
            self.table.take(rows),
            self.objects,
            self.images,
            self.pod_counts,
            self.affinity_terms,
            self.volumes,
            self.total_nodes,
            taken if self.live_rows is None else self.live_rows[taken],
        )

    def one_row(self, row: int) -> View:
        return self.take((row,))

    def frozen(self) -> View:
        """A copy that stays as it is while the live state goes on: for cycles that wait for an extender."""
        table = self.table.copy()
        return View(
            table,
            self.objects,
            self.images.copy(),
            self.pod_counts.copy(),
            self.affinity_terms.copy(),
            self.volumes.copy(table),
        )

    def add_pod(self, info: PodInfo, row: int = 0) -> None:
        """Private copies only: as if the pod were on the node of that row."""
        self.table.add_pod(info, self.table.names[row])

    def remove_pod(self, uid: str, row: int = 0) -> PodInfo:
        """Private copies only: as if the pod were gone."""
        return self.table.remove_pod(row, uid)
