"""The (anti-)affinity terms of a pod with resolved namespaces (docs/kube-scheduler/plugins.md §3.11)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.cluster.pod_terms import AffinityTerm, PodTerms
from scheduler.cluster.selector_index import ALL_NAMESPACES, Namespaces
from scheduler.cluster.view import View
from scheduler.objects.kinds import Kind
from scheduler.objects.selectors import Selector, combined
from scheduler.objects.steps import Pace, Steps

_NO_LABELS: Mapping[str, str] = {}


class OwnTerm(msgspec.Struct, frozen=True, gc=False):
    """The pods that a term matches, and the topology key of the domains in which they count."""

    namespaces: Namespaces
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(labels)


class OwnTerms(msgspec.Struct, frozen=True, gc=False):
    affinity: tuple[OwnTerm, ...] = ()
    anti_affinity: tuple[OwnTerm, ...] = ()
    preferred: tuple[tuple[OwnTerm, int], ...] = ()
    """Terms with signed weights, negative for anti-affinity."""

    @property
    def affinity_namespaces(self) -> Namespaces:
        """The namespaces common to all required affinity terms."""
        common: Namespaces = ALL_NAMESPACES
        for term in self.affinity:
            if term.namespaces is not None:
                common = term.namespaces if common is None else common & term.namespaces
        return common

    @property
    def affinity_selector(self) -> Selector:
        """The conjunction of the selectors of all required affinity terms: one pod must satisfy them all."""
        return combined(*[term.selector for term in self.affinity])


NO_OWN_TERMS = OwnTerms()


def resolve(terms: PodTerms, view: View) -> OwnTerms:
    """The terms with the namespaces that their selectors match in this view."""
    if not terms.affinity and not terms.anti_affinity and not terms.preferred:
        return NO_OWN_TERMS
    return OwnTerms(
        tuple([_resolved(term, view) for term in terms.affinity]),
        tuple([_resolved(term, view) for term in terms.anti_affinity]),
        tuple([(_resolved(term, view), weight) for term, weight in terms.preferred]),
    )


def resolve_in_steps(terms: PodTerms, view: View, pace: Pace) -> Steps[OwnTerms]:
    """``resolve`` with pauses, for many terms: each namespace selector is matched with every namespace."""
    namespaces = len(view.all(Kind.NAMESPACE))
    lists: list[list[OwnTerm]] = []
    for written in (terms.affinity, terms.anti_affinity, [term for term, _ in terms.preferred]):
        lists.append([])
        for term in written:
            pace.left -= 1 if term.namespace_selector.selects_nothing else namespaces
            if pace.is_over:
                yield from pace.pause()
            lists[-1].append(_resolved(term, view))
    weights = [weight for _, weight in terms.preferred]
    return OwnTerms(tuple(lists[0]), tuple(lists[1]), tuple(zip(lists[2], weights, strict=True)))


def namespace_labels(view: View, namespace: str) -> Mapping[str, str]:
    """The labels of a namespace; empty if it is unknown."""
    found = view.get(Kind.NAMESPACE, namespace)
    return _NO_LABELS if found is None else found.metadata.labels


def _resolved(term: AffinityTerm, view: View) -> OwnTerm:
    chooser = term.namespace_selector
    if chooser.selects_nothing:
        return OwnTerm(term.namespaces, term.selector, term.topology_key)
    if chooser.matches(_NO_LABELS):
        # The empty selector means all namespaces. So does, in kube-scheduler 1.36, one made of NotIn and DoesNotExist
        # alone: it keeps the selector beside the names that it resolved and evaluates it again, against no labels.
        return OwnTerm(ALL_NAMESPACES, term.selector, term.topology_key)
    named = [name for name, found in view.all(Kind.NAMESPACE).items() if chooser.matches(found.metadata.labels)]
    return OwnTerm(term.namespaces.union(named), term.selector, term.topology_key)
