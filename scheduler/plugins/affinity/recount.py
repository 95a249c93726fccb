"""InterPodAffinity's states brought up to date by the pods that came and went since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from scheduler.cluster.affinity_terms import PlacedTerm, TermKind
from scheduler.cluster.change_log import RowChange
from scheduler.cluster.selector_index import Namespaces
from scheduler.cluster.view import View
from scheduler.objects.kinds import Kind
from scheduler.objects.selectors import Selector
from scheduler.plugins.affinity.terms import OwnTerms


class Source(Struct, frozen=True):
    """Where some of a state's counts come from, and in which domains they are counted."""

    number: int
    """The number of a query of ``view.pod_counts``, or of a placed term."""
    version: int
    keys: tuple[str, ...]
    """Topology keys, once for each term that counts the same pods."""
    weight: int | None = 1
    """The weight of each pod; None: its own weight of the placed term."""

    def of_pods(self, view: View) -> tuple[Source, list[RowChange]] | None:
        """The source as of now, and the pods that came and went since; None if that is not known any more."""
        counts = view.pod_counts
        changes = counts.changes_since(self.number, self.version)
        return None if changes is None else (self._at(counts.version(self.number)), changes)

    def of_terms(self, view: View) -> tuple[Source, list[RowChange]] | None:
        """The same where the number is a placed term's: the pods that have it."""
        placed = view.affinity_terms.placed(self.number)
        changes = None if placed is None else placed.log.since(self.version)
        return None if placed is None or changes is None else (self._at(placed.version), changes)

    def _at(self, version: int) -> Source:
        return self if version == self.version else Source(self.number, version, self.keys, self.weight)


class Sources(Struct, frozen=True):
    """What a state's counts were made of."""

    labels_version: int
    size: int
    """The number of rows of the table."""
    namespaces: int
    """The version of the Namespaces."""
    affinity: tuple[Source, ...] = ()
    """What the pod's own required affinity terms match, at most one."""
    others: tuple[Source, ...] = ()
    """What its other terms match: of anti-affinity for a filter, preferred ones for a score."""
    terms: tuple[Source, ...] = ()
    """The placed terms that match the pod."""

    def hold_in(self, view: View) -> bool:
        """Whether labels of nodes, rows and namespaces are as they were, so that only pods can have changed counts."""
        table = view.table
        return (
            table.labels_version == self.labels_version
            and table.size == self.size
            and view.version(Kind.NAMESPACE) == self.namespaces
        )

    def with_sources(self, affinity: Sequence[Source], others: Sequence[Source], terms: Sequence[Source]) -> Sources:
        return Sources(self.labels_version, self.size, self.namespaces, tuple(affinity), tuple(others), tuple(terms))


def sources_in(view: View) -> Sources:
    """Sources of no counts yet."""
    return Sources(view.table.labels_version, view.table.size, view.version(Kind.NAMESPACE))


def query_source(
    view: View, namespaces: Namespaces, selector: Selector, keys: tuple[str, ...], weight: int | None = 1
) -> Source:
    counts = view.pod_counts
    query_id = counts.intern(namespaces, selector)
    return Source(query_id, counts.version(query_id), keys, weight)


def term_source(placed: PlacedTerm, weight: int | None = 1) -> Source:
    return Source(placed.id, placed.version, (placed.term.topology_key,), weight)


def filter_sources(own: OwnTerms, placed: Iterable[PlacedTerm], view: View) -> Sources:
    """What the counts of a filter's state are made of."""
    affinity = []
    if own.affinity:
        keys = tuple([term.topology_key for term in own.affinity])
        affinity.append(query_source(view, own.affinity_namespaces, own.affinity_selector, keys))
    others = [query_source(view, term.namespaces, term.selector, (term.topology_key,)) for term in own.anti_affinity]
    terms = [term_source(term) for term in placed if term.kind is TermKind.REQUIRED_ANTI_AFFINITY]
    return sources_in(view).with_sources(affinity, others, terms)
