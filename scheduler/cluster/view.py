"""What a cycle sees of the cluster: all of it, live or of a fork, or some rows to try things on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from scheduler.cluster.affinity_terms import AffinityTerms
from scheduler.cluster.devices.facts import Devices
from scheduler.cluster.groups.facts import Groups
from scheduler.cluster.image_index import ImageIndex
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_counts import PodCounts
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.taken_table import TakenTable
from scheduler.cluster.volumes.facts import Volumes
from scheduler.objects.kinds import AnyObject, Kind
from scheduler.objects.meta import ApiObject


class Facts(Protocol):
    """What is known of the cluster besides the table: of a cache, or of another view."""

    objects: ObjectStore
    images: ImageIndex
    pod_counts: PodCounts
    affinity_terms: AffinityTerms
    volumes: Volumes
    devices: Devices
    groups: Groups


COUNTS_OF_PODS: Final = 2
"""How many of ``View.versions`` grow when pods come and go."""


class View:
    """Everything a plugin may look at. Plugins only read it.

    ``table`` is that of the cache in a normal cycle. Other views have a table of their own over the same counters,
    terms and objects, since what a plugin counted is in its State: a one-row view (``one_row``) has that node as row 0,
    which preemption and nominated pods change freely.
    """

    __slots__ = (
        "affinity_terms",
        "devices",
        "groups",
        "images",
        "live_rows",
        "node_count",
        "objects",
        "pod_counts",
        "table",
        "volumes",
    )

    def __init__(
        self,
        table: NodeTable,
        facts: Facts,
    ) -> None:
        """Only the cluster cache makes one; others are made from it by ``over``."""
        self.table = table
        self.objects = facts.objects
        self.images = facts.images
        self.pod_counts = facts.pod_counts
        self.affinity_terms = facts.affinity_terms
        self.volumes = facts.volumes
        self.devices = facts.devices
        self.groups = facts.groups
        self.node_count: int | None = None
        """Nodes of the whole cluster, where the table is only a part of it."""
        self.live_rows: npt.NDArray[np.int64] | None = None
        """Where the table is a private copy: the rows that it is a copy of, in the table that counters are kept for."""

    def over(self, table: NodeTable, live_rows: npt.NDArray[np.int64]) -> View:
        """The same cluster with another table of some of its rows, which are ``live_rows`` where counters are kept."""
        other = View(table, self)
        other.node_count = self.total_nodes
        other.live_rows = live_rows
        return other

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

    def get(self, kind: Kind, key: str) -> ApiObject | None:
        """The object of this kind and key (``namespace/name``), or None."""
        return self.objects.get(kind, key)

    def find(self, type_: type[AnyObject], key: str) -> AnyObject | None:
        """The object of this key, or None, as ``get`` by the kind's type: ``view.find(StorageClass, "fast")``."""
        return self.objects.find(type_, key)

    def all(self, kind: Kind) -> Mapping[str, ApiObject]:
        return self.objects.all(kind)

    def all_of(self, type_: type[AnyObject]) -> Mapping[str, AnyObject]:
        """All objects of a kind by key, as ``all`` by the kind's type."""
        return self.objects.all_of(type_)

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of all that answers may depend on, comparable within one cache. While they are equal, pods may
        have come to rows or left them, and nothing else has changed. The last ones, COUNTS_OF_PODS, are of the counters
        of pods and of their terms."""
        return (
            self.table.node_version,
            self.table.size,
            self.objects.changes,
            self.images.version,
            self.volumes.version,
            self.devices.version,
            self.pod_counts.changes,
            self.affinity_terms.version,
        )

    def version(self, kind: Kind) -> int:
        """Grows with each change of the kind's objects."""
        return self.objects.version(kind)

    def take(self, rows: Sequence[int]) -> View:
        """A view whose table is a private copy of these rows (as rows 0, 1, ...)."""
        taken = np.array(rows, np.int64)
        live_rows = taken if self.live_rows is None else self.live_rows[taken]
        return self.over(TakenTable(self.table, rows), live_rows)

    def one_row(self, row: int) -> View:
        return self.take((row,))

    def add_pod(self, info: PodInfo, row: int = 0) -> None:
        """Private copies only: as if the pod were on the node of that row."""
        self.table.add_pod_to(row, info)

    def add_pods(self, pods: Mapping[int, Sequence[PodInfo]]) -> None:
        """Private copies only: ``add_pod`` for these rows."""
        assert isinstance(self.table, TakenTable)
        self.table.add_pods(pods)

    def remove_pod(self, uid: str, row: int = 0) -> PodInfo:
        """Private copies only: as if the pod were gone."""
        return self.table.remove_pod(row, uid)
