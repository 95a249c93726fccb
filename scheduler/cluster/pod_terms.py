"""The inter-pod (anti-)affinity terms of one pod, parsed; ``affinity_terms.py`` parses and counts them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.objects.selectors import Selector


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A term as its owner means it. ``namespaces``: the listed ones, or the owner's own."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether a pod is one that the term is about. ``namespace_labels``: those of the pod's namespace."""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(labels)


class PodTerms(msgspec.Struct, frozen=True, gc=False):
    """All terms of one pod in the order written, preferred ones with signed weights (anti-affinity below zero).

    A list with a term that cannot be parsed is empty, and ``faults`` says why.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[AffinityTerm, int], ...] = ()
    faults: tuple[str, ...] = ()


NO_TERMS = PodTerms()
