"""A pod with what scheduling works out about it once: requests, ports, priority."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Final, Literal, NamedTuple

from scheduler.cluster.pod_terms import PodTerms
from scheduler.objects.memo import has_many_parts
from scheduler.objects.node_selectors import (
    MAX_REMEMBERED_TERMS,
    PreferredTerm,
    RequiredNodeAffinity,
    parse_in_steps,
    parse_preferred_terms,
    preferred_in_steps,
    required_node_affinity,
    required_with,
)
from scheduler.objects.pod import Pod, PodSpec
from scheduler.objects.ports import HostPort, host_ports
from scheduler.objects.resources import (
    ResourceVector,
    charge_as_requested,
    node_info_requests_of,
    requests_alike,
    requests_of,
    score_requests_of,
)
from scheduler.objects.selectors import SelectorError
from scheduler.objects.steps import Steps
from scheduler.objects.taints import TolerationIndex
from scheduler.objects.term_index import TermIndex


class Unknown(Enum):
    """The type of NOT_WORKED_OUT, which None cannot stand for: it may be the answer."""

    NOT_WORKED_OUT = auto()


NOT_WORKED_OUT: Final = Unknown.NOT_WORKED_OUT

TemplateKey = tuple[str, bytes, bytes, str, bytes]
"""Namespace, labels, annotations, UID of the controlling owner, spec; maps and spec as sorted JSON."""


class Arithmetic(NamedTuple):
    """What scheduling works out about a pod from its spec alone: equal for all pods of one template."""

    requests: ResourceVector
    score_requests: ResourceVector
    charged: ResourceVector
    non_zero: tuple[int, int]
    ports: tuple[HostPort, ...]
    affinity_terms: PodTerms | Literal[Unknown.NOT_WORKED_OUT]
    """As in ``PodInfo``."""
    required_node_affinity: RequiredNodeAffinity | None
    preferred_node_terms: tuple[PreferredTerm, ...] | None


class PodInfo:
    """One version of one pod. Immutable but for what it remembers of its own arithmetic.

    ``node_name`` is where it runs or is assumed to run, "" for a pending pod: it may be ahead of the object.
    """

    __slots__ = (
        "_charged",
        "_non_zero",
        "_ports",
        "_preferred_node_terms",
        "_requests",
        "_required_node_affinity",
        "_score_requests",
        "_terms_of_nodes",
        "_tolerations",
        "affinity_terms",
        "is_terminating",
        "key",
        "labels",
        "name",
        "namespace",
        "node_name",
        "pod",
        "priority",
        "spread_constraints",
        "template",
        "uid",
    )

    def __init__(self, pod: Pod, node_name: str | None = None) -> None:
        meta = pod.metadata
        self.pod = pod
        self.uid: str = meta.uid
        self.name: str = meta.name
        self.namespace: str = meta.namespace
        self.key: str = f"{meta.namespace}/{meta.name}"
        self.labels: Mapping[str, str] = meta.labels
        self.priority: int = pod.spec.priority or 0
        self.is_terminating = meta.deletion_timestamp is not None
        self.node_name: str = pod.spec.node_name if node_name is None else node_name
        self._requests: ResourceVector | None = None
        self._required_node_affinity: RequiredNodeAffinity | None = None
        self._preferred_node_terms: tuple[PreferredTerm, ...] | None = None
        """The parsed terms, once ``parse_in_steps`` has parsed them; else None."""
        self._score_requests: ResourceVector | None = None
        self._terms_of_nodes: TermIndex | None = None
        self._tolerations: tuple[bool, TolerationIndex] | None = None
        """With and for the word whether operators compare numbers."""
        self._charged: ResourceVector | None = None
        self._non_zero: tuple[int, int] | None = None
        self._ports: tuple[HostPort, ...] | None = None
        self.affinity_terms: PodTerms | Literal[Unknown.NOT_WORKED_OUT] = NOT_WORKED_OUT
        """For ``affinity_terms.terms_of``."""
        self.spread_constraints: object = NOT_WORKED_OUT
        """For PodTopologySpread, once it has parsed many of them."""
        self.template: TemplateKey | Literal[Unknown.NOT_WORKED_OUT] | None = NOT_WORKED_OUT
        """For ``pod_template.template_key``; None for a pod like no other."""

    def on_node(self, node_name: str) -> PodInfo:
        """The same pod, assumed to run there."""
        other = self._copy()
        other.node_name = node_name
        return other

    def nominated_to(self, node_name: str) -> PodInfo:
        """The same pod with ``status.nominatedNodeName`` as it will be once our write has come back."""
        other = self._copy()
        other.pod = self.pod.nominated_to(node_name)
        return other

    def arithmetic(self) -> Arithmetic | None:
        """All that is worked out from the pod's spec; None where its status counts, too (a resize in place)."""
        if self.has_own_amounts:
            return None
        return Arithmetic(
            self.requests,
            self.score_requests,
            self.charged,
            self.non_zero,
            self.ports,
            self.affinity_terms,
            self._required_node_affinity,
            self._preferred_node_terms,
        )

    def take_arithmetic(self, known: Arithmetic | None) -> None:
        """Take over what was worked out about a pod of the same template, unless the status of one of them counts."""
        if known is None or self.has_own_amounts:
            return
        self._requests, self._score_requests, self._charged, self._non_zero, self._ports, terms, required, preferred = (
            known
        )
        if terms is not NOT_WORKED_OUT:
            self.affinity_terms = terms
        if required is not None:
            self._required_node_affinity = required
        if preferred is not None:
            self._preferred_node_terms = preferred

    @property
    def has_own_amounts(self) -> bool:
        """Whether its status has a say in what it asks for."""
        status = self.pod.status
        return bool(status.container_statuses or status.init_container_statuses) or status.resources is not None

    def _copy(self) -> PodInfo:
        other = PodInfo.__new__(PodInfo)
        other.pod = self.pod
        other.uid = self.uid
        other.name = self.name
        other.namespace = self.namespace
        other.key = self.key
        other.labels = self.labels
        other.priority = self.priority
        other.is_terminating = self.is_terminating
        other.node_name = self.node_name
        other.affinity_terms = self.affinity_terms
        other.spread_constraints = self.spread_constraints
        other._requests = self._requests
        other._required_node_affinity = self._required_node_affinity
        other._preferred_node_terms = self._preferred_node_terms
        other._score_requests = self._score_requests
        other._terms_of_nodes = self._terms_of_nodes
        other._tolerations = self._tolerations
        other._charged = self._charged
        other._non_zero = self._non_zero
        other._ports = self._ports
        other.template = NOT_WORKED_OUT
        return other

    @property
    def requests(self) -> ResourceVector:
        """What the pod asks of a node when it is to be placed."""
        if self._requests is None:
            self._requests = requests_of(self.pod)
        return self._requests

    @property
    def required_node_affinity(self) -> RequiredNodeAffinity:
        """Its node selector and required node affinity."""
        if self._required_node_affinity is None:
            self._required_node_affinity = required_node_affinity(self.pod)
        return self._required_node_affinity

    def wants_node(self, labels: Mapping[str, str], name: str) -> bool:
        """As ``accepts_node``, but raises SelectorError if nothing matched and some term has faults."""
        required, terms = self.required_node_affinity, self._indexed_terms()
        if terms is None:
            return required.evaluate(labels, name)
        return _has_labels(required, labels) and terms.evaluate(labels, name)

    def accepts_node(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether its node selector and required node affinity accept a node of this name."""
        required, terms = self.required_node_affinity, self._indexed_terms()
        if terms is None:
            return required.matches(labels, name)
        return _has_labels(required, labels) and terms.matches(labels, name)

    def _indexed_terms(self) -> TermIndex | None:
        """The required terms, indexed; None where they are few."""
        selector = self.required_node_affinity.selector
        if selector is None or len(selector.terms) <= MAX_REMEMBERED_TERMS:
            return None
        if self._terms_of_nodes is None:
            self._terms_of_nodes = TermIndex(selector)
        return self._terms_of_nodes

    def tolerations(self, *, comparison_operators: bool) -> TolerationIndex:
        """Its tolerations by key: a hint asks for them at every event of a node."""
        known = self._tolerations
        if known is None or known[0] is not comparison_operators:
            index = TolerationIndex(self.pod.spec.tolerations, comparison_operators=comparison_operators)
            known = self._tolerations = comparison_operators, index
        return known[1]

    @property
    def preferred_node_terms(self) -> tuple[PreferredTerm, ...]:
        """The terms of its preferred node affinity that can add to a score. Raises SelectorError."""
        known = self._preferred_node_terms
        if known is not None:
            return known
        affinity = self.pod.node_affinity
        return parse_preferred_terms(affinity.preferred) if affinity is not None else ()

    def parse_in_steps(self) -> Steps[None]:
        """Parse long lists of node affinity terms, with pauses: 20,000 terms of 1.5 MB take some 200 ms."""
        affinity = self.pod.node_affinity
        if affinity is None:
            return
        required, preferred = affinity.required, affinity.preferred
        if required is not None and self._required_node_affinity is None:
            selector = yield from parse_in_steps(required)
            self._required_node_affinity = required_with(self.pod, selector)
        if preferred and self._preferred_node_terms is None:
            # Terms with faults are refused, in the same words each time, where the score asks for them.
            with suppress(SelectorError):
                self._preferred_node_terms = yield from preferred_in_steps(preferred)

    def add_up_in_steps(self) -> Steps[None]:
        """Work out its arithmetic, with pauses: 500 containers with ten resources each take some 100 ms."""
        _ = self.requests
        yield
        _ = self.score_requests
        yield
        _ = self.charged
        yield

    def take_terms(self, old: PodInfo) -> None:
        """Reuse the parsed terms of the pod's previous version if its nodeSelector and affinity are the same, what it
        requests and takes if its containers are the same, and its template if nothing differs but its status."""
        before, now = old.pod.spec, self.pod.spec
        if old.template is not NOT_WORKED_OUT and old.namespace == self.namespace and _is_made_alike(old.pod, self.pod):
            self.template = old.template
        if requests_alike(old.pod, self.pod):
            self._requests, self._score_requests, self._ports = old._requests, old._score_requests, old._ports
            self._charged, self._non_zero = old._charged, old._non_zero
        elif old._requests is not None and _request_alike(before, now):
            self._requests, self._score_requests, self._ports = old._requests, old._score_requests, old._ports
            if not self.has_own_amounts and not old.has_own_amounts:
                self._charged, self._non_zero = old._charged, old._non_zero
        if old._required_node_affinity is None and old.affinity_terms is NOT_WORKED_OUT:
            return
        if before.node_selector == now.node_selector and before.affinity == now.affinity:
            if not self.node_name:  # Of a pod on a node nothing asks where it may go.
                self._required_node_affinity = old._required_node_affinity
                self._preferred_node_terms = old._preferred_node_terms
                self._terms_of_nodes = old._terms_of_nodes
            if old.namespace == self.namespace:
                self.affinity_terms = old.affinity_terms

    @property
    def score_requests(self) -> ResourceVector:
        """What NodeResourcesFit's score counts for it: defaults for what is not requested, pod-level ignored."""
        if self._score_requests is None:
            self._score_requests = score_requests_of(self.pod)
        return self._score_requests

    @property
    def charged(self) -> ResourceVector:
        """What it takes of the node that it runs on (status-aware)."""
        if self._charged is None:
            self._work_out_charge()
        assert self._charged is not None
        return self._charged

    @property
    def non_zero(self) -> tuple[int, int]:
        """(milli-CPU, memory bytes) it is scored with on its node: defaults for what is not requested."""
        if self._non_zero is None:
            self._work_out_charge()
        assert self._non_zero is not None
        return self._non_zero

    def _work_out_charge(self) -> None:
        known = None
        if self._requests is not None and has_many_parts(self._requests.scalars):
            known = charge_as_requested(self.pod, self._requests)
        self._charged, self._non_zero = known or node_info_requests_of(self.pod)

    def takes_as_much_as(self, other: PodInfo) -> bool:
        """Whether both take the same of a node."""
        if self._charged is not None and self._charged is other._charged and self._ports is other._ports is not None:
            return self.non_zero == other.non_zero
        return self.charged == other.charged and self.non_zero == other.non_zero and self.ports == other.ports

    @property
    def ports(self) -> tuple[HostPort, ...]:
        if self._ports is None:
            self._ports = host_ports(self.pod)
        return self._ports

    @property
    def has_affinity(self) -> bool:
        """Whether it has inter-pod affinity or anti-affinity at all, even an empty one."""
        affinity = self.pod.spec.affinity
        return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)

    def __repr__(self) -> str:
        return f"PodInfo({self.key}, uid={self.uid}, node={self.node_name or '-'})"


def _has_labels(required: RequiredNodeAffinity, labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in required.labels)


def _is_made_alike(one: Pod, other: Pod) -> bool:
    """Whether nothing differs that a template's key is made from; see ``pod_template.py``. Most changes of a pod that
    waits are of its status, and to compare takes less than to encode all of it again."""
    before, now = one.metadata, other.metadata
    return (
        one.spec == other.spec
        and before.labels == now.labels
        and before.annotations == now.annotations
        and before.owner_references == now.owner_references
    )


def _request_alike(one: PodSpec, other: PodSpec) -> bool:
    return (
        one.containers == other.containers
        and one.init_containers == other.init_containers
        and one.resources == other.resources
        and one.overhead == other.overhead
    )
