"""Which terms keep a pod off a node, in which domains, and pods that they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from scheduler.cluster.affinity_terms import PlacedTerm, TermKind, terms_of
from scheduler.cluster.domains import count_domains, widened
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.findings import Cause, RowArray, label_values, labels_listed, pods_on
from scheduler.objects.memo import MAX_PARTS
from scheduler.objects.selectors import Selector
from scheduler.plugins.affinity.state import AffinityFilterState
from scheduler.plugins.affinity.terms import OwnTerm

MAX_ROWS_SEARCHED = 1_000
"""Rows on which pods are looked for to be named."""


def causes(
    state: AffinityFilterState, view: View, rows: RowArray, counted: Callable[[OwnTerm], RowCounts]
) -> Iterator[Cause]:
    """A cause for each required term of the pod, and for each required anti-affinity term of placed pods that it
    matches. ``counted``: the pods on each row that an own term matches."""
    table = view.table
    anywhere = state.may_be_first and state.no_pod_matches
    together = _shown(state.own.affinity_selector) if state.own.affinity and not anywhere else ""
    for term in state.own.affinity:
        column = table.label(term.topology_key)[rows]
        yield Cause(column == ABSENT, partial(_no_key, "affinity", term.topology_key))
        counts = state.affinity.get(term.topology_key)
        if not anywhere:
            found = widened(counts, table, term.topology_key)[column] if counts is not None else np.zeros(len(rows))
            yield Cause((column != ABSENT) & (found <= 0), partial(_lonely, table, together, term))
    for term in state.own.anti_affinity:
        if term.topology_key not in state.anti_affinity:
            continue  # None of the pod's terms of this key matches any pod.
        pods = counted(term)
        domains = count_domains(table, term.topology_key, pods)
        taken = (domains > 0)[table.label(term.topology_key)[rows]]
        yield Cause(taken, partial(_repelled, table, term, domains, pods))
    for placed in view.affinity_terms.matching(state.namespace, state.labels, state.namespace_labels):
        if placed.kind is TermKind.REQUIRED_ANTI_AFFINITY:
            key = placed.term.topology_key
            taken = (placed.by_value(table) > 0)[table.label(key)[rows]]
            yield Cause(taken, partial(_not_wanted, table, placed))


def _no_key(called: str, key: str, _rows: RowArray) -> str:
    return f"{called} by {key}: the node has no such label"


def _shown(selector: Selector) -> str:
    """The selector, of very many requirements the first."""
    more = len(selector.requirements) - MAX_PARTS
    if more <= 0:
        return str(selector)
    return f"{','.join([str(part) for part in selector.requirements[:MAX_PARTS]])} and {more} more requirements"


def _lonely(table: NodeTable, selector: str, term: OwnTerm, rows: RowArray) -> str:
    where = label_values(table, term.topology_key, rows)
    return f"affinity by {term.topology_key}: no pod with {selector}{_in(term)} in {where}"


def _repelled(table: NodeTable, term: OwnTerm, domains: npt.NDArray[np.int64], pods: RowCounts, rows: RowArray) -> str:
    values = _values(table, term.topology_key, domains, rows)
    named = _named(table, term.topology_key, values, pods, lambda info: term.matches(info.namespace, info.labels))
    listed = labels_listed(table, term.topology_key, values)
    return f"anti-affinity to pods with {term.selector}{_in(term)}: {int(domains[values].sum())} in {listed} ({named})"


def _not_wanted(table: NodeTable, placed: PlacedTerm, rows: RowArray) -> str:
    term = placed.term
    values = _values(table, term.topology_key, placed.by_value(table), rows)
    named = _named(
        table,
        term.topology_key,
        values,
        placed.occurrences,
        lambda info: term in terms_of(info).anti_affinity,
    )
    listed = labels_listed(table, term.topology_key, values)
    return f"anti-affinity of pods in {listed} to pods with {term.selector} ({named})"


def _values(table: NodeTable, key: str, domains: npt.NDArray[np.int64], rows: RowArray) -> list[int]:
    """The ids of the values of these rows whose domains count something."""
    ids = np.unique(table.label(key)[rows])
    return [int(value_id) for value_id in ids if value_id < len(domains) and domains[value_id] > 0]


def _named(
    table: NodeTable, key: str, values: list[int], counts: RowCounts, is_meant: Callable[[PodInfo], bool]
) -> str:
    column, wanted = table.label(key), set(values)
    rows = [row for row, count in list(counts.items().items())[:MAX_ROWS_SEARCHED] if count > 0]
    return pods_on(table, [row for row in rows if int(column[row]) in wanted], is_meant) or "…"


def _in(term: OwnTerm) -> str:
    if term.namespaces is None:
        return " in any namespace"
    return f" in {', '.join(sorted(term.namespaces)[:3])}{', …' if len(term.namespaces) > 3 else ''}"
