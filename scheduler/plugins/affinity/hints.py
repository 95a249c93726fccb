"""InterPodAffinity's queueing hints (docs/kube-scheduler/plugins.md §3.11).

Namespace selectors are evaluated against no labels here, as in kube-scheduler 1.36: pods that are matched only through
one are missed, and the pod waits for another event.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

import msgspec

from scheduler.cluster.affinity_terms import terms_of
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_terms import AffinityTerm
from scheduler.framework.events import Hint, HintKeys, Wanted
from scheduler.objects.node import Node
from scheduler.objects.requirements import Operator

_NO_LABELS: Mapping[str, str] = {}
_HAS, _REPELS = "has", "repels"
_ENCODER = msgspec.json.Encoder(order="sorted")


def pod_changed(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    """The hint for a placed pod that was added, deleted, or changed its labels."""
    if old is not None and new is not None and new.uid == pod.uid:
        return Hint.QUEUE
    if any(other is not None and not _has_place(other) for other in (old, new)):
        return Hint.SKIP
    own = terms_of(pod)
    if own.faults:
        return Hint.QUEUE
    if old is not None and new is not None:
        now_attracts = not _matches_all(own.affinity, old) and _matches_all(own.affinity, new)
        no_longer_repels = _matches_all(own.anti_affinity, old) and not _matches_all(own.anti_affinity, new)
        return Hint.QUEUE if now_attracts or no_longer_repels else Hint.SKIP
    if new is not None:
        return Hint.QUEUE if _matches_all(own.affinity, new) else Hint.SKIP
    if old is not None:
        theirs = terms_of(old)
        if theirs.faults or _matches_all(own.anti_affinity, old) or _matches_all(theirs.anti_affinity, pod):
            return Hint.QUEUE
    return Hint.SKIP


def facet_of_pod(other: PodInfo) -> Hashable:
    """The part of a pod other than the waiting one that ``pod_changed`` reads."""
    affinity = other.pod.spec.affinity if other.has_affinity else None
    terms = _ENCODER.encode((affinity.pod_affinity, affinity.pod_anti_affinity)) if affinity is not None else b""
    return other.namespace, frozenset(other.labels.items()), _has_place(other), terms


def keys_wanted(pod: PodInfo) -> Wanted | None:
    """What a pod must offer (``keys_offered``) for ``pod_changed`` to queue this one."""
    own = terms_of(pod)
    if own.faults:
        return None
    conditions: list[tuple[frozenset[Hashable], ...]] = []
    for terms in (own.affinity, own.anti_affinity):
        sets = tuple([frozenset(labels) for labels in _required_labels(terms, _HAS)])
        if terms and not sets:
            return None
        if terms:
            conditions.append(sets)
    # The other one may have repelled this pod by one of its labels.
    conditions += [(frozenset(((_REPELS, *label),)),) for label in pod.labels.items()]
    return tuple(conditions)


def keys_offered(other: PodInfo) -> list[Hashable] | None:
    """The labels of a pod, and labels one of which another must have for its required anti-affinity to match."""
    theirs = terms_of(other)
    if theirs.faults:
        return None
    keys: list[Hashable] = [(_HAS, *label) for label in other.labels.items()]
    if theirs.anti_affinity:
        repelled = next(_required_labels(theirs.anti_affinity, _REPELS), None)
        if repelled is None:
            return None
        keys += repelled
    return keys


def _required_labels(terms: tuple[AffinityTerm, ...], role: str) -> Iterator[list[Hashable]]:
    """Lists of labels, of each of which a pod that all terms match has one."""
    for term in terms:
        for requirement in term.selector.requirements:
            if requirement.operator is Operator.IN:
                yield [(role, requirement.key, value) for value in requirement.values]


def node_changed(pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
    """The hint for a node that was added or changed its labels."""
    own = terms_of(pod)
    if own.faults or new is None:
        return Hint.QUEUE
    after = new.metadata.labels
    if old is None:
        if own.anti_affinity or any(term.topology_key in after for term in own.affinity):
            return Hint.QUEUE
        return Hint.SKIP
    before = old.metadata.labels
    for term in own.affinity:
        key = term.topology_key
        if key in after and before.get(key) != after[key]:
            return Hint.QUEUE
    for term in own.anti_affinity:
        key = term.topology_key
        if key in before and before[key] != after.get(key):
            return Hint.QUEUE
    return Hint.SKIP


def _has_place(other: PodInfo) -> bool:
    return other.node_name != "" or other.pod.nominated_node_name != ""


def _matches_all(terms: tuple[AffinityTerm, ...], other: PodInfo) -> bool:
    """Whether the pod matches all terms; False without terms."""
    return bool(terms) and all(term.matches(other.namespace, other.labels, _NO_LABELS) for term in terms)


KEYS_OF_PODS = HintKeys(keys_wanted, keys_offered)
