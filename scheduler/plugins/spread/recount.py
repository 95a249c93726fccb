"""PodTopologySpread's states brought up to date by the pods that came and went since."""

from __future__ import annotations

from msgspec import Struct

from scheduler.cluster.interning import ABSENT
from scheduler.cluster.node_matching import Mask
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View


class CountedQuery(Struct, frozen=True):
    """Where the counts of one constraint come from."""

    query_id: int
    """Of ``view.pod_counts``."""
    version: int
    mask: Mask | None
    """The rows that count, None = all."""

    def counts_as(self, other: CountedQuery) -> bool:
        """Whether both have the same changes to come, perhaps on other rows."""
        return self.query_id == other.query_id and self.version == other.version

    def at(self, version: int) -> CountedQuery:
        """The same, once the counts have this version."""
        return self if version == self.version else CountedQuery(self.query_id, version, self.mask)


class Nodes(Struct, frozen=True):
    """The nodes that constraints were counted on."""

    version: int
    size: int
    """Of the table."""
    honors_taints: bool
    """Whether taints count for one of the constraints; else no more than labels does."""

    @classmethod
    def of(cls, table: NodeTable, *, honors_taints: bool) -> Nodes:
        return cls(version_of_nodes(table, honors_taints=honors_taints), table.size, honors_taints)

    def hold_in(self, table: NodeTable) -> bool:
        """Whether they are still the same to the constraints."""
        return self.size == table.size and self.version == version_of_nodes(table, honors_taints=self.honors_taints)


def version_of_nodes(table: NodeTable, *, honors_taints: bool) -> int:
    return table.node_version if honors_taints else table.labels_version


class Basis(Struct, frozen=True):
    """What a state's counts were made of."""

    nodes: Nodes
    queries: tuple[CountedQuery | None, ...]
    """One a constraint; None: its selector counts no pods."""


def changes_by_value(query: CountedQuery, key: str, view: View) -> tuple[CountedQuery, list[tuple[int, int]]] | None:
    """The query as of now, and what changed since: the value ids of the key, with +1 or -1, for each pod that counts.
    None if that is not known any more."""
    found = changes_by_row(query, view)
    if found is None or not found[1]:
        return found
    now, rows = found
    ids, mask = view.table.label(key), query.mask
    changed: list[tuple[int, int]] = []
    for row, sign in rows:
        value_id = ids.item(row)
        if value_id != ABSENT and (mask is None or mask.item(row)):
            changed.append((value_id, sign))
    return now, changed


def changes_by_row(query: CountedQuery, view: View) -> tuple[CountedQuery, list[tuple[int, int]]] | None:
    """The same by row, of all rows."""
    counts = view.pod_counts
    changes = counts.changes_since(query.query_id, query.version)
    if changes is None:
        return None
    now = query.at(counts.version(query.query_id))
    # A pod that is being deleted does not count.
    return now, [(change.row, change.weight) for change in changes if change.weight]
