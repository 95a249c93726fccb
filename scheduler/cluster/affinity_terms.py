"""The inter-pod (anti-)affinity terms of placed pods, counted per node and found by the pods that they match.

Pods of one workload have equal terms, so equal terms are interned: (kind, namespaces, namespace selector, selector,
topology key). Terms live as long as some placed pod has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import count

import numpy as np
import numpy.typing as npt

from scheduler.cluster.change_log import ChangeLog
from scheduler.cluster.domains import count_domains
from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.pod_info import NOT_WORKED_OUT, PodInfo
from scheduler.cluster.pod_terms import NO_TERMS, AffinityTerm, PodTerms
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.selector_index import ALL_NAMESPACES, Namespaces, SelectorIndex
from scheduler.cluster.table import NodeTable
from scheduler.errors import InvariantViolation
from scheduler.objects.node_selectors import PARTS_A_SLICE
from scheduler.objects.pod import PodAffinity, PodAffinityTerm
from scheduler.objects.selectors import (
    NOTHING,
    SelectorError,
    is_very_long,
    parse_selector,
    parse_selector_in_steps,
)
from scheduler.objects.steps import Steps, run_to_end


class TermKind(Enum):
    """What a term asks for; the preferred ones differ by the sign of their weight only."""

    REQUIRED_AFFINITY = "affinity"
    REQUIRED_ANTI_AFFINITY = "anti-affinity"
    PREFERRED = "preferred"

    __hash__ = object.__hash__
    """Enum's own is a function in Python, called for each term that comes or goes."""


def terms_of(info: PodInfo) -> PodTerms:
    """A pod's terms, parsed once (docs/kube-scheduler/plugins.md §3.11). Never raises: see ``PodTerms.faults``."""
    known = info.affinity_terms
    if known is not NOT_WORKED_OUT:
        return known
    terms = run_to_end(_parsed(info)) if info.has_affinity else NO_TERMS
    info.affinity_terms = terms
    return terms


def parse_in_steps(info: PodInfo) -> Steps[None]:
    """Parse the pod's node and pod affinity terms and add up its requests, with pauses; the pod keeps the results."""
    yield from info.parse_in_steps()
    yield from info.add_up_in_steps()
    if info.affinity_terms is NOT_WORKED_OUT and info.has_affinity:
        info.affinity_terms = yield from _parsed(info)


def _parsed(info: PodInfo) -> Steps[PodTerms]:
    affinity = info.pod.spec.affinity
    assert affinity is not None
    attract, repel = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    faults: list[str] = []

    def parsed(written: Sequence[PodAffinityTerm], called: str) -> Steps[tuple[AffinityTerm, ...]]:
        terms: list[AffinityTerm] = []
        parts = 0
        try:
            for term in written:
                is_long = is_very_long(term.label_selector) or is_very_long(term.namespace_selector)
                terms.append((yield from _long_term(term, info.namespace)) if is_long else _term(term, info.namespace))
                parts += 3 + len(term.namespaces)
                if parts > PARTS_A_SLICE:
                    parts = 0
                    yield
        except SelectorError as error:
            faults.append(f"{called}: {error}")
            return ()
        return tuple(terms)

    required = yield from parsed(attract.required, "requiredAffinityTerms")
    required_anti = yield from parsed(repel.required, "requiredAntiAffinityTerms")
    preferred: list[tuple[AffinityTerm, int]] = []
    for list_, sign, called in (
        (attract.preferred, 1, "preferredAffinityTerms"),
        (repel.preferred, -1, "preferredAntiAffinityTerms"),
    ):
        terms = yield from parsed([weighted.pod_affinity_term for weighted in list_], called)
        preferred += [(term, sign * weighted.weight) for term, weighted in zip(terms, list_, strict=False)]
    return PodTerms(required, required_anti, tuple(preferred), tuple(faults))


def _long_term(written: PodAffinityTerm, namespace: str) -> Steps[AffinityTerm]:
    chooser = yield from parse_selector_in_steps(written.namespace_selector)
    selector = yield from parse_selector_in_steps(written.label_selector)
    return AffinityTerm(_namespaces(written, namespace), chooser, selector, written.topology_key)


def _namespaces(written: PodAffinityTerm, namespace: str) -> frozenset[str]:
    if not written.namespaces and written.namespace_selector is None:
        return frozenset((namespace,))
    return frozenset(written.namespaces)


def _term(written: PodAffinityTerm, namespace: str) -> AffinityTerm:
    return AffinityTerm(
        _namespaces(written, namespace),
        parse_selector(written.namespace_selector),
        parse_selector(written.label_selector),
        written.topology_key,
    )


class PlacedTerm:
    """A term that placed or nominated pods have. Read it; only AffinityTerms changes it."""

    __slots__ = ("holders", "id", "kind", "log", "occurrences", "term", "total", "version", "weights")

    def __init__(self, term_id: int, kind: TermKind, term: AffinityTerm, version: int) -> None:
        self.id = term_id
        self.kind = kind
        self.term = term
        self.version = version
        """Equal versions of one term promise equal numbers."""
        self.log = ChangeLog(version)
        self.total = 0
        """How many placed pods have the term."""
        self.holders = 0
        """How many pods have it that are not placed, but may be looked at as if they were."""
        self.occurrences = RowCounts()
        """How often pods of each row have the term."""
        self.weights: RowCounts | None = RowCounts() if kind is TermKind.PREFERRED else None
        """Sum of the signed weights on each row; None for required terms."""

    def by_value(self, table: NodeTable) -> npt.NDArray[np.int64]:
        """Occurrences by the value of the topology key: int64, index = value id, entry 0 is 0."""
        return count_domains(table, self.term.topology_key, self.occurrences)

    def weight_by_value(self, table: NodeTable) -> npt.NDArray[np.int64]:
        """Sums of weights likewise; of a required term the occurrences."""
        return count_domains(table, self.term.topology_key, self.occurrences if self.weights is None else self.weights)

    def change(self, row: int, sign: int, weight: int, version: int) -> None:
        self.version = version
        self.log.append(version, row, sign, sign * weight)
        self.total += sign
        self.occurrences.add(row, sign)
        if self.weights is not None:
            self.weights.add(row, sign * weight)

    def copied(self) -> PlacedTerm:
        other = PlacedTerm(self.id, self.kind, self.term, self.version)
        other.log = self.log.copy()
        other.total = self.total
        other.holders = self.holders
        other.occurrences = self.occurrences.copy()
        other.weights = None if self.weights is None else self.weights.copy()
        return other


_Key = tuple[TermKind, AffinityTerm]


class AffinityTerms:
    """A tally of the terms of all placed pods. Ids of terms are never used again.

    Lists with a term that cannot be parsed count for nothing, as in kube-scheduler 1.36.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._ids: ForkableDict[_Key, int] = ForkableDict()
        self._terms: ForkableDict[int, PlacedTerm] = ForkableDict()
        self._index = SelectorIndex()
        self._new_ids = count(1)
        self._clock = count(1)
        self.version = 0
        """Grows with every change of any term."""
        self.terms_version = 0
        """Grows when the first pod with a term comes, or the last one goes."""

    # --- asking -------------------------------------------------------------------------------------------------------

    def matching(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> list[PlacedTerm]:
        """The terms of placed pods that match a pod with these labels, in order of their ids."""
        terms = self._terms
        if not terms:
            return []
        found = [
            term_id
            for term_id in self._index.candidates(namespace, labels)
            if terms[term_id].term.matches(namespace, labels, namespace_labels)
        ]
        found.sort()
        return [terms[term_id] for term_id in found]

    def term_version(self, term_id: int) -> int:
        """The term's version; 0 once no placed pod has it."""
        term = self._terms.get(term_id)
        return 0 if term is None else term.version

    def placed(self, term_id: int) -> PlacedTerm | None:
        """The term with this id; None once no pod has it."""
        return self._terms.get(term_id)

    def __len__(self) -> int:
        return len(self._terms)

    # --- the tally ----------------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        for key, weight in _listed(terms_of(info)):
            self._writable(key).change(row, 1, weight, self._tick())

    def remove(self, info: PodInfo, row: int) -> None:
        """Count the terms of a pod no longer that leaves its row. Raises InvariantViolation if they were not
        counted."""
        for key, weight in _listed(terms_of(info)):
            if key not in self._ids:
                raise InvariantViolation(f"pod {info.key} leaves row {row} with a term that is not counted")
            known = self._terms[self._ids[key]]
            if known.total == 1 and not known.holders and known.occurrences.at(row) == 1:
                self._drop(key, known)
            else:
                term = self._writable(key)
                term.change(row, -1, weight, self._tick())
                self._drop_if_unused(key, term)

    def hold(self, info: PodInfo) -> None:
        """Keep the required anti-affinity terms of a nominated pod, without counting them. A pod's class is made of the
        terms that match it: those of a nominated pod must tell classes apart before that pod is placed."""
        for term in terms_of(info).anti_affinity:
            self._writable((TermKind.REQUIRED_ANTI_AFFINITY, term)).holders += 1
            self._tick()

    def release(self, info: PodInfo) -> None:
        """End ``hold`` for a pod that is nominated no more. Raises InvariantViolation if it was not held."""
        for term in terms_of(info).anti_affinity:
            key = TermKind.REQUIRED_ANTI_AFFINITY, term
            if key not in self._ids or not self._terms[self._ids[key]].holders:
                raise InvariantViolation(f"pod {info.key} was not held")
            placed = self._writable(key)
            placed.holders -= 1
            self._drop_if_unused(key, placed)

    def replace(self, known: PodInfo, info: PodInfo, row: int) -> None:
        """Replace a pod of a row by another version. Nothing changes unless its terms did, which the API forbids."""
        if known.namespace == info.namespace and known.pod.spec.affinity == info.pod.spec.affinity:
            return
        self.remove(known, row)
        self.add(info, row)

    def fork(self, table: NodeTable) -> AffinityTerms:
        """The same over a fork of the table; neither side sees what the other does from now on."""
        other = AffinityTerms(table)
        other._ids = self._ids.fork()
        other._terms = self._terms.fork()
        other._index = self._index.fork()
        other._new_ids = self._new_ids
        other._clock = self._clock
        other.version = self.version
        other.terms_version = self.terms_version
        return other

    def check(self) -> None:
        """Raise InvariantViolation unless everything equals a recount of the pods in the table."""
        recount = AffinityTerms(self._table)
        for row, pods in enumerate(self._table.pods):
            for info in pods.values():
                recount.add(info, row)
        counted = {key: term_id for key, term_id in self._ids.items() if self._terms[term_id].total}
        if counted.keys() != recount._ids.keys():
            raise InvariantViolation("the affinity terms differ from a recount")
        for key, term_id in counted.items():
            found, expected = self._terms[term_id], recount._terms[recount._ids[key]]
            same = found.total == expected.total and found.occurrences.items() == expected.occurrences.items()
            if same and found.weights is not None and expected.weights is not None:
                same = found.weights.items() == expected.weights.items()
            if not same:
                raise InvariantViolation(f"affinity term {key} differs from a recount")

    # --- inside -------------------------------------------------------------------------------------------------------

    def _drop_if_unused(self, key: _Key, term: PlacedTerm) -> None:
        if not term.total and not term.holders:
            self._drop(key, term)

    def _drop(self, key: _Key, term: PlacedTerm) -> None:
        del self._ids[key]
        del self._terms[term.id]
        self._index.drop(term.id)
        self.terms_version = self._tick()

    def _tick(self) -> int:
        self.version = next(self._clock)
        return self.version

    def _writable(self, key: _Key) -> PlacedTerm:
        """The term for changing it: created if it is new, copied if a fork shares it."""
        term_id = self._ids.get(key)
        if term_id is None:
            kind, term = key
            term_id = self._ids[key] = next(self._new_ids)
            placed = self._terms[term_id] = PlacedTerm(term_id, kind, term, 0)
            self._index.put(term_id, _area(term), term.selector)
            self.terms_version = self._tick()
            return placed
        return self._terms.writable(term_id, PlacedTerm.copied)


def _area(term: AffinityTerm) -> Namespaces:
    return term.namespaces if term.namespace_selector == NOTHING else ALL_NAMESPACES


def _listed(terms: PodTerms) -> Iterator[tuple[_Key, int]]:
    for term in terms.affinity:
        yield (TermKind.REQUIRED_AFFINITY, term), 1
    for term in terms.anti_affinity:
        yield (TermKind.REQUIRED_ANTI_AFFINITY, term), 1
    for term, weight in terms.preferred:
        yield (TermKind.PREFERRED, term), weight
