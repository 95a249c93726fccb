"""Counts for a pod with very many (anti-)affinity terms: with pauses, and without a kept counter for each term.

Counters are kept for selectors that many pods share. The thousands of one pod would evict all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.cluster.domains import DomainCounts, count_domains
from scheduler.cluster.pod_terms import PodTerms
from scheduler.cluster.row_counts import RowCounts
from scheduler.cluster.selector_index import Namespaces
from scheduler.cluster.view import View
from scheduler.objects.memo import MAX_PARTS
from scheduler.objects.selectors import Selector
from scheduler.objects.steps import Pace, Steps
from scheduler.plugins.affinity.terms import OwnTerm, OwnTerms, resolve_in_steps

_STEPS_A_SLICE = 10_000
_STEPS_A_TERM = 20
"""A step matches a group of pods or a namespace, which takes 1 to 3 µs, so a slice takes 10 to 30 ms."""

Domains = dict[str, DomainCounts]


def is_long(terms: PodTerms) -> bool:
    return len(terms.affinity) + len(terms.anti_affinity) + len(terms.preferred) > MAX_PARTS


def new_pace() -> Pace:
    return Pace(_STEPS_A_SLICE)


def required_in_steps(terms: PodTerms, view: View) -> Steps[tuple[OwnTerms, Domains, Domains]]:
    """The resolved terms, and the counts of what the required ones match, of affinity and of anti-affinity."""
    pace = new_pace()
    own = yield from resolve_in_steps(terms, view, pace)
    affinity: Domains = {}
    if own.affinity:
        counts = yield from _counted(own.affinity_namespaces, own.affinity_selector, view, pace)
        for key in dict.fromkeys([term.topology_key for term in own.affinity]):
            times = sum([term.topology_key == key for term in own.affinity])
            found = count_domains(view.table, key, counts) * times
            if found.any():
                affinity[key] = found
    anti_affinity = yield from _weighed([(term, 1) for term in own.anti_affinity], view, pace)
    return own, affinity, anti_affinity


def preferred_in_steps(terms: PodTerms, view: View) -> Steps[Domains]:
    """The weights of the preferred terms that match any pod, summed up."""
    pace = new_pace()
    own = yield from resolve_in_steps(terms, view, pace)
    return (yield from _weighed(own.preferred, view, pace))


def _weighed(terms: Sequence[tuple[OwnTerm, int]], view: View, pace: Pace) -> Steps[Domains]:
    """By topology key, the matching pods of each domain times the weights."""
    sums: Domains = {}
    for term, weight in terms:
        counts = yield from _counted(term.namespaces, term.selector, view, pace)
        if counts.is_zero:
            continue
        found = count_domains(view.table, term.topology_key, counts)
        if found.any():
            known = sums.get(term.topology_key)
            sums[term.topology_key] = found * weight if known is None else known + found * weight
    return sums


def _counted(namespaces: Namespaces, selector: Selector, view: View, pace: Pace) -> Steps[RowCounts]:
    pace.left -= _STEPS_A_TERM
    if pace.is_over:
        yield from pace.pause()
    return (yield from view.pod_counts.count_in_steps(namespaces, selector, pace))
