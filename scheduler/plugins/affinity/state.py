"""InterPodAffinity's states, computed once per pod (docs/kube-scheduler/plugins.md §3.11)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scheduler.cluster.affinity_terms import terms_of
from scheduler.cluster.change_log import RowChange
from scheduler.cluster.domains import DomainCounts, widened
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.plugin import Rows, Scores, State
from scheduler.framework.row_facts import FactColumn, FactualState, RowFacts
from scheduler.plugins.affinity.recount import Source, Sources
from scheduler.plugins.affinity.terms import OwnTerms, namespace_labels

Domains = Mapping[str, DomainCounts]
"""Topology key -> counts by value id."""

AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY = 1, 2, 3
"""Codes of refusals, in the order in which they are checked."""


class AffinityFilterState(FactualState):
    """The three counts that decide on which rows the pod fits. Rows without a topology key are in no domain."""

    __slots__ = (
        "affinity",
        "anti_affinity",
        "existing",
        "labels",
        "may_be_first",
        "namespace",
        "namespace_labels",
        "own",
        "sources",
    )

    def __init__(
        self,
        pod: PodInfo,
        namespace_labels: Mapping[str, str],
        own: OwnTerms,
        affinity: Domains,
        anti_affinity: Domains,
        existing: Domains,
    ) -> None:
        self.sources: Sources | None = None
        """What the counts were made of; None where that is not kept, or pods were added that are not there."""
        self.namespace = pod.namespace
        self.labels = pod.labels
        self.namespace_labels = namespace_labels
        self.own = own
        self.affinity = affinity
        """The number of pods that match all own required affinity terms, counted once for each term of the key."""
        self.anti_affinity = anti_affinity
        """The number of pods that match an own required anti-affinity term."""
        self.existing = existing
        """The number of placed pods' required anti-affinity terms that the pod matches."""
        self.may_be_first = all(term.matches(pod.namespace, pod.labels) for term in own.affinity)
        """The pod matches its own terms, so it may be placed if no pod of the cluster matches them."""

    @property
    def nbytes(self) -> int:
        return sum(map(_nbytes, (self.affinity, self.anti_affinity, self.existing)))

    def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> AffinityFilterState:
        table = view.table
        own = self.own
        existing = self.existing
        for term in terms_of(other).anti_affinity:
            if term.matches(self.namespace, self.labels, self.namespace_labels):
                existing = _changed(existing, term.topology_key, table, row, sign)
        affinity = self.affinity
        if own.affinity and all(term.matches(other.namespace, other.labels) for term in own.affinity):
            for own_term in own.affinity:
                affinity = _changed(affinity, own_term.topology_key, table, row, sign)
        anti_affinity = self.anti_affinity
        for own_term in own.anti_affinity:
            if own_term.matches(other.namespace, other.labels):
                anti_affinity = _changed(anti_affinity, own_term.topology_key, table, row, sign)
        if existing is self.existing and affinity is self.affinity and anti_affinity is self.anti_affinity:
            return self
        return self._with(affinity, anti_affinity, existing, None)

    def recounted(self, pod: PodInfo, view: View) -> AffinityFilterState | None:
        """The state as of now, and of this pod of its class; None unless pods are all that changed, and something is
        counted still: the plugin skips a pod of which nothing is, and then nominated pods do not count either."""
        sources = self.sources
        if sources is None or not sources.hold_in(view):
            return None
        affinity = _recounted(self.affinity, sources.affinity, Source.of_pods, view)
        anti_affinity = _recounted(self.anti_affinity, sources.others, Source.of_pods, view)
        existing = _recounted(self.existing, sources.terms, Source.of_terms, view)
        if affinity is None or anti_affinity is None or existing is None:
            return None
        own = self.own
        if not own.affinity and not own.anti_affinity and not any(each.any() for each in existing[0].values()):
            return None
        now = sources.with_sources(affinity[1], anti_affinity[1], existing[1])
        state = self._with(affinity[0], anti_affinity[0], existing[0], now)
        state.namespace, state.labels = pod.namespace, pod.labels
        state.namespace_labels = namespace_labels(view, pod.namespace)
        return state

    def _with(
        self, affinity: Domains, anti_affinity: Domains, existing: Domains, sources: Sources | None
    ) -> AffinityFilterState:
        changed = AffinityFilterState.__new__(AffinityFilterState)
        changed.namespace = self.namespace
        changed.labels = self.labels
        changed.namespace_labels = self.namespace_labels
        changed.own = self.own
        changed.affinity = affinity
        changed.anti_affinity = anti_affinity
        changed.existing = existing
        changed.may_be_first = self.may_be_first
        changed.sources = sources
        return changed

    def for_row(self, view: View, row: int) -> AffinityFilterState | AffinityRowState:
        """A state with the same answers for this row and for changes of its pods, but cheaper to change."""
        if self.own.affinity:
            # Whether the pod may be the first one depends on the pods of all rows.
            return self
        anti_affinity = _counts_at(self.anti_affinity, view.table, row)
        return AffinityRowState(self, anti_affinity, _counts_at(self.existing, view.table, row))

    def ignores(self, other: PodInfo) -> bool:
        """Whether no required term of either pod matches the other, so that ``with_pod`` has no effect on any node."""
        own = self.own
        return not (
            (own.affinity and all(term.matches(other.namespace, other.labels) for term in own.affinity))
            or any(term.matches(other.namespace, other.labels) for term in own.anti_affinity)
            or any(
                term.matches(self.namespace, self.labels, self.namespace_labels)
                for term in terms_of(other).anti_affinity
            )
        )

    def row_facts(self, view: View) -> RowFacts:
        """The counts in each row's domains, and whether other domains have pods beside which this one may be."""
        table, rows = view.table, view.rows
        columns: dict[Hashable, FactColumn] = {}
        for kind in ("existing", "anti_affinity", "affinity"):
            domains: Domains = getattr(self, kind)
            for key, counts in domains.items():
                here = columns[kind, key] = widened(counts, table, key).take(table.label(key)[rows])
                if kind == "affinity":
                    columns["elsewhere", key] = (counts.sum() != here).astype(np.int64)
        return RowFacts((self.namespace, self.labels, self.namespace_labels, self.own), columns)

    @property
    def no_pod_matches(self) -> bool:
        """Whether no pod on a node with one of the keys matches all own required affinity terms."""
        return not any(counts.any() for counts in self.affinity.values())

    def codes(self, table: NodeTable, rows: Rows) -> npt.NDArray[np.int16]:
        """The refusal code of each of ``rows``, 0 = fits."""
        codes = np.zeros(len(table.exists[rows]), np.int16)
        for key, counts in self.existing.items():
            np.putmask(codes, _taken(counts, table, key, rows), EXISTING_ANTI_AFFINITY)
        for key, counts in self.anti_affinity.items():
            np.putmask(codes, _taken(counts, table, key, rows), ANTI_AFFINITY)
        if self.own.affinity:
            anywhere = self.may_be_first and self.no_pod_matches
            for key in dict.fromkeys([term.topology_key for term in self.own.affinity]):
                column = table.label(key)[rows]
                accepted = column != ABSENT
                if not anywhere:
                    found = self.affinity.get(key)
                    if found is None:
                        accepted = np.zeros(len(column), np.bool_)
                    else:
                        accepted = (widened(found, table, key) > 0).take(column)
                np.putmask(codes, ~accepted, AFFINITY)
        return codes

    def codes_by_value(self, table: NodeTable) -> tuple[str, npt.NDArray[np.int16]] | None:
        """A topology key and the refusal code of each of its values by id; None if more than one key decides."""
        keys = {*self.existing, *self.anti_affinity, *[term.topology_key for term in self.own.affinity]}
        if len(keys) != 1:
            return None
        (key,) = keys
        width = len(table.label_values(key))
        codes = np.zeros(width, np.int16)
        # As in `codes`: a later check overwrites the code of an earlier one.
        for counted, code in ((self.existing, EXISTING_ANTI_AFFINITY), (self.anti_affinity, ANTI_AFFINITY)):
            if key in counted:
                codes[widened(counted[key], table, key) > 0] = code
        if self.own.affinity:
            found = self.affinity.get(key)
            if found is not None and found.any():
                codes[widened(found, table, key) <= 0] = AFFINITY
            elif not self.may_be_first:
                codes[:] = AFFINITY
            codes[ABSENT] = AFFINITY
        return key, codes

    def code(self, table: NodeTable, row: int) -> int:
        """The refusal code of one row."""
        anywhere: bool | None = None
        for key in dict.fromkeys([term.topology_key for term in self.own.affinity]):
            value_id = int(table.label(key)[row])
            if value_id == ABSENT:
                return AFFINITY
            if _at(self.affinity, key, value_id) <= 0:
                if anywhere is None:
                    anywhere = self.may_be_first and self.no_pod_matches
                if not anywhere:
                    return AFFINITY
        for key in self.anti_affinity:
            if _at(self.anti_affinity, key, int(table.label(key)[row])) > 0:
                return ANTI_AFFINITY
        for key in self.existing:
            if _at(self.existing, key, int(table.label(key)[row])) > 0:
                return EXISTING_ANTI_AFFINITY
        return 0


class AffinityRowState(State):
    """The counts of ``whole`` in the domains of one row: topology key -> count, without keys that the node lacks."""

    __slots__ = ("anti_affinity", "existing", "whole")

    def __init__(
        self, whole: AffinityFilterState, anti_affinity: Mapping[str, int], existing: Mapping[str, int]
    ) -> None:
        self.whole = whole
        self.anti_affinity = anti_affinity
        self.existing = existing

    def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> AffinityRowState:
        whole = self.whole
        existing, anti_affinity = self.existing, self.anti_affinity
        for term in terms_of(other).anti_affinity:
            if term.matches(whole.namespace, whole.labels, whole.namespace_labels):
                existing = _changed_at(existing, term.topology_key, view.table, row, sign)
        for own_term in whole.own.anti_affinity:
            if own_term.matches(other.namespace, other.labels):
                anti_affinity = _changed_at(anti_affinity, own_term.topology_key, view.table, row, sign)
        if existing is self.existing and anti_affinity is self.anti_affinity:
            return self
        return AffinityRowState(whole, anti_affinity, existing)

    def code(self, _table: NodeTable, _row: int) -> int:
        """The row's refusal code, 0 = fits."""
        if any(count > 0 for count in self.anti_affinity.values()):
            return ANTI_AFFINITY
        return EXISTING_ANTI_AFFINITY if any(count > 0 for count in self.existing.values()) else 0


class AffinityScoreState(State):
    """``sums``: topology key -> sum of the weights of all terms that hold in a domain, by value id; 0 for entry 0.
    ``sources``: what the sums were made of, None where that is not kept. ``changed_rows``: those whose scores may be
    other than in the state that this was recounted from, None where that is not known."""

    __slots__ = ("changed_rows", "sources", "sums")

    def __init__(self, sums: Domains, sources: Sources | None = None) -> None:
        self.sums = sums
        self.sources = sources
        self.changed_rows: Collection[int] | None = None

    @property
    def nbytes(self) -> int:
        return _nbytes(self.sums)

    def recounted(self, view: View) -> AffinityScoreState | None:
        """The state as of now; None unless pods that came are all that changed. Of those that went one may have been
        the last one that a term held for, and then it may no longer count that there is a sum."""
        sources = self.sources
        if sources is None or not sources.hold_in(view):
            return None
        others = _recounted(self.sums, sources.others, Source.of_pods, view, only_more=True)
        terms = None if others is None else _recounted(others[0], sources.terms, Source.of_terms, view, only_more=True)
        if others is None or terms is None:
            return None
        state = AffinityScoreState(terms[0], sources.with_sources((), others[1], terms[1]))
        if all(view.table.has_unique_labels(key) for key in state.sums):
            state.changed_rows = {*others[2], *terms[2]}
        return state

    def scores(self, table: NodeTable, rows: Rows) -> Scores:
        total = np.zeros(len(table.exists[rows]), np.int64)
        for key, sums in self.sums.items():
            total += widened(sums, table, key).take(table.label(key)[rows])
        return total

    def score(self, table: NodeTable, row: int) -> int:
        return sum(_at(self.sums, key, int(table.label(key)[row])) for key in self.sums)


Recount = Callable[[Source, View], tuple[Source, list[RowChange]] | None]


def _recounted(
    domains: Domains, sources: Sequence[Source], changes_of: Recount, view: View, *, only_more: bool = False
) -> tuple[Domains, list[Source], list[int]] | None:
    """The counts with what changed in their sources since, and the rows where it did; None if that is not known any
    more, or some pods went and there may be ``only_more``."""
    now: list[Source] = []
    rows: list[int] = []
    for source in sources:
        found = changes_of(source, view)
        if found is None:
            return None
        now.append(found[0])
        for change in found[1]:
            if only_more and change.sign < 0:
                return None
            rows.append(change.row)
            for key in source.keys:
                by = change.weight if source.weight is None else change.sign * source.weight
                domains = _changed(domains, key, view.table, change.row, by)
    return domains, now, rows


def _taken(counts: DomainCounts, table: NodeTable, key: str, rows: Rows) -> npt.NDArray[np.bool_]:
    taken: npt.NDArray[np.bool_] = (widened(counts, table, key) > 0).take(table.label(key)[rows])
    return taken


def _nbytes(domains: Domains) -> int:
    return sum(counts.nbytes for counts in domains.values())


def _at(domains: Domains, key: str, value_id: int) -> int:
    counts = domains.get(key)
    return int(counts[value_id]) if counts is not None and value_id < len(counts) else 0


def _changed(domains: Domains, key: str, table: NodeTable, row: int, sign: int) -> Domains:
    """The counts plus ``sign`` in the row's domain; unchanged if the node lacks the key."""
    value_id = int(table.label(key)[row])
    if value_id == ABSENT:
        return domains
    counts = domains.get(key)
    width = len(table.label_values(key))
    changed = np.zeros(width, np.int64) if counts is None else widened(counts, table, key).copy()
    changed[value_id] += sign
    return {**domains, key: changed}


def _counts_at(domains: Domains, table: NodeTable, row: int) -> dict[str, int]:
    """Topology key -> the count in the row's domain, for the node's keys."""
    ids = {key: int(table.label(key)[row]) for key in domains}
    return {key: _at(domains, key, value_id) for key, value_id in ids.items() if value_id != ABSENT}


def _changed_at(counts: Mapping[str, int], key: str, table: NodeTable, row: int, sign: int) -> Mapping[str, int]:
    count = counts.get(key)
    if count is None:
        if int(table.label(key)[row]) == ABSENT:
            return counts
        count = 0
    return {**counts, key: count + sign}
